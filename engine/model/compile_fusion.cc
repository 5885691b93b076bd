// What a bundle has in addition to its own encoder and decoder, compiled into Parts:
//
// 1. CompileEnsemble: further members, each a decoder with its own encoder or the model's; weights
//    add up to 1.
// 2. CompileScorer, by kind: a language model is a decoder that reads the token alone
//    (CompileLanguageModel); a CTC output of the encoder; an n-gram file (CompileNgram).
// 3. Scorers that no bundle lists: the count of words, where tokens write words, and a transducer's
//    internal language model.
// 4. The lexical table.
//
// CompileNgram finds out what the file is, since bundles only name it: gzip is unpacked; KenLM's
// binary by its head, an ARPA file by its name or `\data\`; other files are lexicons
// (CompileLexicon). Then what its words are. If at least half of them are tokens of the target
// vocabulary it scores tokens; otherwise it scores words, which are found in the text at their ends
// (CompileWords). A model of which fewer than half of the words can be spelled with the tokens is
// refused: another vocabulary's model would silently make answers worse.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/text_codec.h"
#include "engine/fusion/ngram_files.h"
#include "engine/model/compile_graphs.h"
#include "engine/model/lexicons.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"

namespace beamwright::engine {
namespace {

using Parts = DecodeModel::Parts;

// The largest weight of a scorer, where the bundle has no limit.
constexpr float kMostWeight = 100;

// A decoder that is stepped with the model's main decoder.
absl::Status CompileBeside(ops::Graph graph, const v1::DecoderConfig& config,
                           std::shared_ptr<const EncoderPart> encoder, Parts& parts) {
  BW_ASSIGN_OR_RETURN(auto decoder,
                      CompileDecoder(std::move(graph), config, parts, std::move(encoder)));
  if (decoder->vocabulary_size != parts.vocabulary_size()) {
    return Invalid("has scores for ", decoder->vocabulary_size, " tokens, the model for ",
                   parts.vocabulary_size());
  }
  parts.decoders.push_back(std::move(decoder));
  return absl::OkStatus();
}

// Whether one tensor can have both types and shapes.
bool Agree(const ops::ValueInfo& a, const ops::ValueInfo& b) {
  const ops::Shape& x = a.shape.dims();
  const ops::Shape& y = b.shape.dims();
  return a.dtype == b.dtype &&
         std::equal(x.begin(), x.end(), y.begin(), y.end(), [](int64_t m, int64_t n) {
           return m == n || m == ops::PartialShape::kDynamic || n == ops::PartialShape::kDynamic;
         });
}

// Encoders share further inputs by name.
absl::Status CheckSharedInputs(const EncoderPart& encoder, const Parts& parts) {
  for (const FurtherInput& input : encoder.further_inputs) {
    for (const auto& [other, same] : parts.wanted_inputs()) {
      const ops::ValueInfo& here = encoder.info_of(input.input);
      const ops::ValueInfo& there = other->info_of(same->input);
      if (same->name == input.name && !Agree(here, there)) {
        return Invalid("encoder.further_inputs: '", input.name, "' is ", Name(here.dtype),
                       here.shape.ToString(), ", and another encoder's is ", Name(there.dtype),
                       there.shape.ToString(),
                       "; a request brings one tensor for both: give one of the graphs another "
                       "name for its input");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CompileMember(const v1::EnsembleMember& config, bundle::Bundle::Member graphs,
                           Parts& parts) {
  std::shared_ptr<const EncoderPart> encoder = parts.own_encoder;
  if (config.has_encoder()) {
    auto own = CompileEncoder(*std::move(graphs.encoder), config.encoder(), parts);
    const absl::Status shared = own.ok() ? CheckSharedInputs(**own, parts) : own.status();
    if (!shared.ok()) {
      return Annotate(shared, config.encoder().graph());
    }
    encoder = *std::move(own);
  }
  return Annotate(
      CompileBeside(std::move(graphs.decoder), config.decoder(), std::move(encoder), parts),
      config.decoder().graph());
}

absl::Status CompileEnsemble(bundle::Bundle& bundle, Parts& parts) {
  const v1::EnsembleConfig& config = bundle.config.ensemble();
  if (!bundle.config.has_ensemble()) {
    return absl::OkStatus();
  }
  parts.mix_kind =
      config.mean() == v1::ENSEMBLE_MEAN_PROBS ? ops::MixKind::kProbs : ops::MixKind::kLogProbs;
  parts.member_weights.push_back(config.has_weight() ? config.weight() : 1);
  for (int i = 0; i < config.members_size(); ++i) {
    absl::Status status =
        CompileMember(config.members(i), std::move(bundle.members[static_cast<size_t>(i)]), parts);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("ensemble.members[", i, "]"));
    }
    parts.member_weights.push_back(config.members(i).has_weight() ? config.members(i).weight() : 1);
  }
  const float sum = std::accumulate(parts.member_weights.begin(), parts.member_weights.end(), 0.0f);
  for (float& weight : parts.member_weights) {
    weight /= sum;
  }
  return absl::OkStatus();
}

// Whether a token belongs to no word: a special one, or the blank.
bool IsSilent(const Parts& parts, int32_t id) {
  const bundle::TextCodec& codec = *parts.target;
  return (parts.frames != nullptr && id == parts.frames->blank) || id == codec.begin_id() ||
         id == codec.pad_id() || id == codec.unknown_id() ||
         std::find(codec.end_ids().begin(), codec.end_ids().end(), id) != codec.end_ids().end();
}

// The text that a token writes: with a space where a word begins or ends.
std::string SurfaceOf(const bundle::TextCodec& codec, const v1::TextConfig& config, int32_t id) {
  if (config.form() == v1::TEXT_FORM_CHARACTERS) {
    return codec.TokenText(id);
  }
  const std::string once = codec.Decode({id});
  if (config.form() == v1::TEXT_FORM_PIECES && config.mark() == v1::SUBWORD_MARK_UNFINISHED) {
    return absl::StrCat(once, absl::EndsWith(codec.TokenText(id), "@@") ? "" : " ");
  }
  if (config.form() == v1::TEXT_FORM_PIECES && config.mark() == v1::SUBWORD_MARK_WORD_END) {
    return absl::StrCat(once, absl::EndsWith(codec.TokenText(id), "</w>") ? " " : "");
  }
  // A text does not begin with a space: behind itself the token shows the space that it writes.
  std::string twice = codec.Decode({id, id});
  return absl::StartsWith(twice, once) ? twice.substr(once.size()) : once;
}

// The number of words whose bytes all occur in some token: an upper bound of the words that tokens
// spell.
int64_t CountSpelled(absl::Span<const std::string> words, const fusion::WordTokens& tokens) {
  std::array<bool, 256> has_byte = {};
  for (const std::string& surface : tokens.surfaces) {
    for (const char letter : surface) {
      has_byte[static_cast<unsigned char>(letter)] = true;
    }
  }
  return std::count_if(words.begin(), words.end(), [&](const std::string& word) {
    return std::all_of(word.begin(), word.end(),
                       [&](char letter) { return has_byte[static_cast<unsigned char>(letter)]; });
  });
}

// The texts of the tokens, of a model whose answers are words of a text. InvalidArgument for other
// models.
absl::StatusOr<fusion::WordTokens> WordTokensOf(const Parts& parts) {
  const v1::TextConfig& target = parts.config.target();
  if (target.form() == v1::TEXT_FORM_IDS || target.form() == v1::TEXT_FORM_WHITESPACE) {
    return Invalid("the target has no text in which words could be found");
  }
  if (bundle::IsJoinerCodec(*parts.target)) {
    return Invalid("words are not found in the text of tokens with OpenNMT's joiner '￭'");
  }
  fusion::WordTokens tokens;
  tokens.ends = parts.target->end_ids();
  for (int32_t id = 0; id < parts.vocabulary_size(); ++id) {
    tokens.surfaces.push_back(IsSilent(parts, id) ? "" : SurfaceOf(*parts.target, target, id));
  }
  return tokens;
}

// The n-gram model of an ARPA file or of KenLM's binary.
absl::StatusOr<std::shared_ptr<const fusion::NgramModel>> ReadNgrams(
    std::string content, const fusion::NgramVocabulary& vocabulary,
    const fusion::KenlmTokens& tokens) {
  return fusion::IsKenlm(content) ? fusion::ReadKenlm(std::move(content), vocabulary, tokens)
                                  : fusion::ReadArpa(content, vocabulary, tokens.token_of);
}

// An n-gram model whose words are not tokens: they are found at their borders in the text.
absl::Status CompileWords(std::string content, const std::vector<std::string>& words,
                          int64_t num_tokens, const Parts& parts, ScorerPart& scorer) {
  absl::StatusOr<fusion::WordTokens> tokens = WordTokensOf(parts);
  if (!tokens.ok()) {
    return Invalid("of its ", words.size(), " words ", num_tokens,
                   " are tokens of the target vocabulary: it is another vocabulary's model, or its "
                   "words are written otherwise (capitals?); ",
                   tokens.status().message());
  }
  const int64_t spelled = CountSpelled(words, *tokens);
  if (2 * spelled < static_cast<int64_t>(words.size())) {
    return Invalid("of its ", words.size(), " words ", num_tokens,
                   " are tokens of the target vocabulary, and ", spelled,
                   " can be spelled with its tokens: it is another vocabulary's model, or its "
                   "words are written otherwise (capitals?)");
  }
  absl::flat_hash_map<absl::string_view, int32_t> numbers;
  for (const std::string& word : words) {
    numbers.emplace(word, static_cast<int32_t>(numbers.size()));
  }
  fusion::NgramVocabulary vocabulary;
  vocabulary.num_tokens = static_cast<int>(words.size()) + 1;
  fusion::KenlmTokens words_as_tokens;
  words_as_tokens.token_of = [&numbers](absl::string_view word) {
    const auto found = numbers.find(word);
    return found == numbers.end() ? -1 : found->second;
  };
  auto model = ReadNgrams(std::move(content), vocabulary, words_as_tokens);
  BW_RETURN_IF_ERROR(model.status());
  scorer.note = absl::StrCat("an n-gram model of ", words.size(), " words, of which ", num_tokens,
                             " are tokens and ", spelled,
                             " can be spelled: it scores words at "
                             "their ends");
  scorer.words =
      std::make_shared<const fusion::WordNgram>(*std::move(model), words, *std::move(tokens));
  return absl::OkStatus();
}

// The first field of each line.
std::vector<std::string> WordsOfLines(absl::string_view content) {
  std::vector<std::string> words;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (!fields.empty()) {
      words.emplace_back(fields[0]);
    }
  }
  return words;
}

absl::Status CompileLexicon(const v1::NgramConfig& config, const std::string& content,
                            const std::function<int32_t(absl::string_view)>& token_of,
                            const Parts& parts, ScorerPart& scorer) {
  scorer.min_weight = std::max(scorer.min_weight, 0.0F);  // impossible words cannot be subtracted
  std::optional<SpelledLexicon> spelled_in_tokens =
      ReadSpelledLexicon(content, parts.vocabulary_size(), token_of,
                         [&parts](int32_t id) { return IsSilent(parts, id); });
  if (spelled_in_tokens.has_value()) {
    scorer.note = absl::StrCat("a lexicon of ", spelled_in_tokens->words.size(),
                               " spellings in tokens; ", spelled_in_tokens->num_left_out,
                               " lines have what is no token and were left out");
    spelled_in_tokens->tokens.ends = parts.target->end_ids();
    scorer.lexicon = std::make_shared<const fusion::Lexicon>(spelled_in_tokens->words,
                                                             std::move(spelled_in_tokens->tokens));
    return absl::OkStatus();
  }
  const std::vector<std::string> words = WordsOfLines(content);
  absl::StatusOr<fusion::WordTokens> tokens = WordTokensOf(parts);
  if (!tokens.ok()) {
    return Invalid(
        config.file(), ": ", tokens.status().message(),
        "; its lines may spell words in tokens (`word token token`) where a token that is "
        "nowhere else ends, or begins, each of them");
  }
  const int64_t spelled = CountSpelled(words, *tokens);
  if (2 * spelled <= static_cast<int64_t>(words.size())) {
    return Invalid(config.file(), ": of its ", words.size(), " words ", spelled,
                   " can be spelled with the tokens of the target vocabulary: it is another "
                   "vocabulary's, or its words are written otherwise (capitals?)");
  }
  scorer.note =
      absl::StrCat("a lexicon of ", words.size(), " words, of which ", spelled, " can be spelled");
  scorer.lexicon = std::make_shared<const fusion::Lexicon>(words, *std::move(tokens));
  return absl::OkStatus();
}

absl::Status CompileNgram(const v1::NgramConfig& config, std::string content, const Parts& parts,
                          ScorerPart& scorer) {
  if (fusion::IsGzip(content)) {
    absl::StatusOr<std::string> unpacked = fusion::UnpackGzip(content);
    BW_RETURN_IF_ERROR(Annotate(unpacked.status(), config.file()));
    content = *std::move(unpacked);
  }
  fusion::NgramVocabulary vocabulary;
  vocabulary.num_tokens = parts.vocabulary_size();
  vocabulary.end_tokens = parts.target->end_ids();
  const auto token_of = [&](absl::string_view word) {
    int32_t id = -1;
    if (!config.ids()) {
      id = parts.target->TokenId(std::string(word));
    } else if (!absl::SimpleAtoi(word, &id)) {
      id = -1;
    }
    return id < parts.vocabulary_size() ? std::max(id, -1) : -1;
  };
  const bool is_kenlm = fusion::IsKenlm(content);
  if (!is_kenlm && !absl::EndsWith(config.file(), ".arpa") &&
      !absl::StrContains(content, "\\data\\")) {
    return CompileLexicon(config, content, token_of, parts, scorer);
  }
  const absl::StatusOr<bool> has_words = is_kenlm ? fusion::KenlmHasWords(content) : true;
  BW_RETURN_IF_ERROR(Annotate(has_words.status(), config.file()));
  const fusion::KenlmTokens tokens = {
      token_of,
      [&](int32_t id) { return config.ids() ? absl::StrCat(id) : parts.target->TokenText(id); }};
  if (!*has_words) {
    auto model = ReadNgrams(std::move(content), vocabulary, tokens);
    BW_RETURN_IF_ERROR(Annotate(model.status(), config.file()));
    scorer.note = "an n-gram model of tokens, which were found by their hashes";
    scorer.ngram = *std::move(model);
    return absl::OkStatus();
  }
  auto words = is_kenlm ? fusion::ReadKenlmWords(content) : fusion::ReadArpaWords(content);
  BW_RETURN_IF_ERROR(Annotate(words.status(), config.file()));
  const auto num_words = static_cast<int64_t>(words->size());
  const int64_t num_tokens = std::count_if(
      words->begin(), words->end(), [&](const std::string& word) { return token_of(word) >= 0; });
  if (2 * num_tokens < num_words && !config.ids()) {
    return Annotate(CompileWords(std::move(content), *words, num_tokens, parts, scorer),
                    config.file());
  }
  auto model = ReadNgrams(std::move(content), vocabulary, tokens);
  if (!model.ok()) {
    return Annotate(model.status(), config.file());
  }
  scorer.note = absl::StrCat("an n-gram model of tokens; of its ", num_words, " words ",
                             num_words - num_tokens, " are no tokens and were left out");
  scorer.ngram = *std::move(model);
  return absl::OkStatus();
}

absl::Status CompileLanguageModel(const v1::DecoderConfig& config, ops::Graph graph, Parts& parts,
                                  ScorerPart& scorer) {
  absl::Status status = CompileBeside(std::move(graph), config, nullptr, parts);
  if (!status.ok()) {
    return Annotate(status, config.graph());
  }
  for (const DecoderInput& input : parts.decoders.back()->inputs) {
    if (!input.has_constant) {
      return Invalid(config.graph(), ": input '", input.name,
                     "' is neither the token nor a state that starts from a constant, which is all "
                     "that a language model may read");
    }
  }
  scorer.decoder = parts.num_decoders() - 1;
  if (scorer.decoder == 0 && parts.decoders.back()->body->counts_steps()) {
    return absl::UnimplementedError(
        absl::StrCat(config.graph(),
                     ": its states grow, or it reads the number of the step; a search by frames "
                     "takes language models whose states keep their shapes"));
  }
  return absl::OkStatus();
}

absl::Status CompileScorer(const v1::ScorerConfig& config, bundle::Bundle& bundle, Parts& parts) {
  ScorerPart& scorer = parts.scorers.emplace_back();
  scorer.name = config.name();
  scorer.min_weight = config.has_min_weight() ? config.min_weight()
                      : config.has_ctc()      ? 0
                                              : -kMostWeight;
  scorer.max_weight = config.has_max_weight() ? config.max_weight() : kMostWeight;
  if (config.has_ngram()) {
    return CompileNgram(config.ngram(), std::move(bundle.ngrams[config.name()]), parts, scorer);
  }
  if (config.has_language_model()) {
    return CompileLanguageModel(config.language_model(),
                                std::move(bundle.language_models[config.name()]), parts, scorer);
  }
  BW_ASSIGN_OR_RETURN(scorer.ctc, FindCtcOutput(config.ctc(), *parts.encoder()));
  return absl::OkStatus();
}

}  // namespace

absl::Status CompileFusion(bundle::Bundle& bundle, DecodeModel::Parts& parts) {
  BW_RETURN_IF_ERROR(CompileEnsemble(bundle, parts));
  for (const v1::ScorerConfig& scorer : bundle.config.scorers()) {
    BW_RETURN_IF_ERROR(Annotate(CompileScorer(scorer, bundle, parts),
                                absl::StrCat("scorer '", scorer.name(), "'")));
  }
  const bool has_words = std::any_of(
      parts.scorers.begin(), parts.scorers.end(),
      [](const ScorerPart& part) { return part.words != nullptr || part.lexicon != nullptr; });
  // Without texts of words, as where a lexicon spells words in tokens, words are not counted.
  absl::StatusOr<fusion::WordTokens> tokens;
  if (has_words && parts.FindScorer(kWordCount) == nullptr) {
    tokens = WordTokensOf(parts);
  }
  if (tokens.ok()) {
    ScorerPart& count = parts.scorers.emplace_back();
    count.name = kWordCount;
    count.min_weight = -kMostWeight;
    count.max_weight = kMostWeight;
    count.word_count = std::make_shared<const fusion::WordCount>(*std::move(tokens));
  }
  if (bundle.config.has_transducer() && parts.FindScorer(kInternalLanguageModel) == nullptr) {
    ScorerPart& internal = parts.scorers.emplace_back();
    internal.name = kInternalLanguageModel;
    internal.min_weight = -kMostWeight;
  }
  if (bundle.config.has_lexical_table()) {
    const v1::LexicalTableConfig& config = bundle.config.lexical_table();
    auto table = LexicalTable::Read(bundle.lexical_table, config, *parts.source, *parts.target,
                                    parts.vocabulary_size());
    if (!table.ok()) {
      return Annotate(table.status(), config.file());
    }
    parts.lexical_table = *std::move(table);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
