// Guesses how one side of a model writes its text, from its vocabulary (ReadTextSide):
//
// 1. A SentencePiece model by its name, or a tokenizer's file by its content: these say how text is
//    cut, and only the special tokens are guessed (ReadTokenizer).
// 2. A list of tokens: characters, if every token is one; pieces, if tokens have a mark such as
//    "@@" or "▁"; else words.
// 3. Special tokens by the usual names (begin, end, padding, unknown), unless flags name them; what
//    is given must be in the vocabulary.
// 4. Sources are made lower-case if no token has a capital.
//
// Each guess is explained in `reasons`.
#include "tools/bundle/text_side.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/bundle/text_codec.h"
#include "engine/bundle/tokenizer_file.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "tools/bundle/token_file.h"

namespace beamwright::tools {
namespace {

// The usual token that the vocabulary holds; "" if none.
std::string FindUsual(const std::set<std::string>& tokens,
                      absl::Span<const absl::string_view> usual) {
  for (const absl::string_view token : usual) {
    if (tokens.count(std::string(token)) > 0) {
      return std::string(token);
    }
  }
  return "";
}

void Note(const std::string& side, absl::string_view what, const std::string& token,
          std::vector<std::string>& reasons) {
  if (!token.empty()) {
    reasons.push_back(
        absl::StrCat(side, " ", what, " token '", token, "': it is in the vocabulary"));
  }
}

absl::Status CheckGiven(const std::string& side, const SpecialTokens& special,
                        const std::set<std::string>& tokens) {
  std::vector<std::string> given = special.ends;
  given.insert(given.begin(), special.begin);
  for (const std::string& token : given) {
    if (!token.empty() && tokens.count(token) == 0) {
      return Invalid("token '", token, "' is not in the ", side, " vocabulary");
    }
  }
  return absl::OkStatus();
}

void SetEnds(const std::vector<std::string>& ends, v1::TextConfig& config) {
  config.mutable_end_tokens()->Assign(ends.begin(), ends.end());
}

// A vocabulary that says how text is cut. known: gets its tokens, among which the given special
// ones must be.
absl::StatusOr<std::unique_ptr<bundle::TextCodec>> OpenCodec(
    const std::string& side, const std::string& path, const std::string& content,
    const SpecialTokens& special, const v1::TextConfig& config, std::set<std::string>& known) {
  absl::StatusOr<std::unique_ptr<bundle::TextCodec>> codec =
      bundle::TextCodec::Create(config, content);
  if (!codec.ok()) {
    return Annotate(codec.status(), absl::StrCat(side, " vocabulary '", path, "'"));
  }
  for (int32_t id = 0; id < (*codec)->size(); ++id) {
    known.insert((*codec)->TokenText(id));
  }
  BW_RETURN_IF_ERROR(CheckGiven(side, special, known));
  return codec;
}

// Reads a file that says how text is cut: only the special tokens are guessed.
absl::StatusOr<TextSide> ReadTokenizer(const std::string& side, const std::string& path,
                                       const std::string& content, const SpecialTokens& special,
                                       std::vector<std::string>& reasons) {
  TextSide text;
  v1::TextConfig& config = text.config;
  config.set_form(v1::TEXT_FORM_PIECES);
  config.set_vocabulary(absl::StrCat(side, absl::EndsWith(path, ".json") ? ".json" : ".vocab"));
  std::set<std::string> known;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<bundle::TextCodec> codec,
                      OpenCodec(side, path, content, special, config, known));
  text.size = codec->size();
  reasons.push_back(absl::StrCat(side, " text is cut as '", path, "' says"));
  config.set_begin_token(special.begin);
  SetEnds(special.ends, config);
  if (side == "target") {
    if (special.ends.empty()) {
      const std::string end = FindUsual(known, kUsualEndsOfTexts);
      if (end.empty()) {
        return Invalid(side, " vocabulary '", path, "': which token ends a text? Name it by --end");
      }
      SetEnds({end}, config);
      Note(side, "end", end, reasons);
    }
    if (special.begin.empty()) {
      const std::string begin = FindUsual(known, kUsualBeginsOfTexts);
      config.set_begin_token(begin.empty() ? config.end_tokens(0) : begin);
      Note(side, "begin", config.begin_token(), reasons);
    }
  }
  return text;
}

// The special tokens of SentencePiece: the given ones, else the usual pieces that the model has.
// Those of a source are given or none. T5's targets begin with the pad token.
absl::Status SetSentencePieceTokens(const std::string& side, const std::string& path,
                                    const std::string& content, const SpecialTokens& special,
                                    v1::TextConfig& config, std::vector<std::string>& reasons) {
  constexpr absl::string_view kBegins[] = {"<s>", "<pad>"};
  std::set<std::string> known;
  BW_RETURN_IF_ERROR(OpenCodec(side, path, content, special, config, known).status());
  config.set_unknown_token(FindUsual(known, kUsualUnknowns));
  if (side != "target") {
    config.set_begin_token(special.begin);
    SetEnds(special.ends, config);
    return absl::OkStatus();
  }
  const std::string begin = special.begin.empty() ? FindUsual(known, kBegins) : special.begin;
  std::vector<std::string> ends = special.ends;
  if (ends.empty() && known.count("</s>") > 0) {
    ends.push_back("</s>");
  }
  if (begin.empty() || ends.empty()) {
    return Invalid("target vocabulary '", path, "': which token ",
                   begin.empty() ? "begins" : "ends",
                   " a text? It has none of SentencePiece's usual pieces; name it by ",
                   begin.empty() ? "--begin" : "--end");
  }
  config.set_begin_token(begin);
  SetEnds(ends, config);
  reasons.push_back(absl::StrCat(
      "target begins with '", begin, "' and ends with '", ends[0],
      "': ", special.begin.empty() ? "SentencePiece's usual pieces; check this" : "as given"));
  return absl::OkStatus();
}

}  // namespace

bool IsSentencePiece(absl::string_view path) {
  return absl::EndsWith(path, ".model") || absl::EndsWith(path, ".spm");
}

absl::StatusOr<TextSide> ReadTextSide(const std::string& side, const std::string& path,
                                      const std::string& content, const SpecialTokens& special,
                                      std::vector<std::string>& reasons, Vocabulary::Lines lines) {
  TextSide text;
  v1::TextConfig& config = text.config;
  const bool is_target = side == "target";
  if (IsSentencePiece(path)) {
    config.set_form(v1::TEXT_FORM_SENTENCEPIECE);
    config.set_vocabulary(absl::StrCat(side, ".model"));
    reasons.push_back(absl::StrCat(side, " text is SentencePiece: '", path, "' ends with ",
                                   path.substr(path.rfind('.'))));
    BW_RETURN_IF_ERROR(SetSentencePieceTokens(side, path, content, special, config, reasons));
    return text;
  }
  if (bundle::IsTokenizerFile(content)) {
    return ReadTokenizer(side, path, content, special, reasons);
  }
  const absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Parse(content, lines);
  if (!vocabulary.ok()) {
    return Annotate(vocabulary.status(), absl::StrCat(side, " vocabulary '", path, "'"));
  }
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    tokens.push_back(vocabulary->token(id));
  }
  const std::set<std::string> known(tokens.begin(), tokens.end());
  BW_RETURN_IF_ERROR(CheckGiven(side, special, known));
  config.set_vocabulary(absl::StrCat(side, ".vocab"));
  text.size = static_cast<int64_t>(tokens.size());
  const bool characters = std::all_of(tokens.begin(), tokens.end(), [](const std::string& token) {
    return LooksSpecial(token) || CountCharacters(token) == 1;
  });
  const std::optional<v1::SubwordMark> mark =
      characters ? std::nullopt : FindSubwordMark(side, tokens, reasons);
  if (mark.has_value()) {
    config.set_form(v1::TEXT_FORM_PIECES);
    config.set_mark(*mark);
    reasons.push_back(absl::StrCat(side,
                                   " text is cut into the longest pieces: merges or probabilities "
                                   "that cut it in training are not in a list; where they matter, "
                                   "send ids"));
  } else {
    config.set_form(characters ? v1::TEXT_FORM_CHARACTERS : v1::TEXT_FORM_WHITESPACE);
    reasons.push_back(absl::StrCat(
        side, characters ? " text is read by characters: every token is one"
                         : " text is split at white space: tokens are longer than a character"));
  }
  if (!characters) {
    for (const std::string& token : tokens) {
      if (absl::c_any_of(token, absl::ascii_isspace)) {
        constexpr size_t kShown = 40;
        return Invalid(side, " vocabulary '", path, "': '", absl::CEscape(token.substr(0, kShown)),
                       "' contains white space, which separates tokens",
                       token.size() > kShown ? "; a vocabulary is one token a line" : "");
      }
    }
  }
  config.set_pad_token(FindUsual(known, kUsualPads));
  config.set_unknown_token(FindUsual(known, kUsualUnknowns));
  Note(side, "pad", config.pad_token(), reasons);
  if (is_target && !config.pad_token().empty()) {
    reasons.push_back(absl::StrCat(
        "target pad token '", config.pad_token(),
        "' changes scores: it is never generated, and log-probabilities are those of the model "
        "without it, higher by what the model gives it; without the line pad_token it is a token "
        "like any other"));
  }
  Note(side, "unknown", config.unknown_token(), reasons);
  const bool capitals = std::any_of(tokens.begin(), tokens.end(), [](const std::string& token) {
    return !LooksSpecial(token) && std::any_of(token.begin(), token.end(), absl::ascii_isupper);
  });
  if (!is_target && !capitals) {
    config.set_lowercase(true);
    reasons.push_back(absl::StrCat(side, " text is made lower-case first: no token has a capital"));
  }
  if (!is_target) {
    config.set_begin_token(special.begin);
    SetEnds(special.ends, config);
  } else {
    config.set_begin_token(special.begin.empty() ? FindUsual(known, kUsualBegins) : special.begin);
    SetEnds(special.ends, config);
    if (const std::string end = FindUsual(known, kUsualEnds);
        special.ends.empty() && !end.empty()) {
      config.add_end_tokens(end);
    }
    Note(side, "begin", config.begin_token(), reasons);
    for (const std::string& end : config.end_tokens()) {
      Note(side, "end", end, reasons);
    }
  }
  return text;
}

// Finds out which special tokens a model was trained with around its sources and targets, by
// scoring known pairs. A graph does not show this, and a wrong framing gives worse answers without
// an error.
//
// 1. UsualFramings: the choices, from the usual names of such tokens that the vocabularies have,
//    with the bundle's own first.
// 2. FindFraming compiles the model with each framing and scores all pairs (MeanLogProb): the
//    framing that gives the known targets the highest probability per token is the one of the
//    training. Lengths that sources may have been padded to are tried too (PaddedLengths).
// 3. The bundle's own framing stays unless another leads by kLeast.
//
// The lead over the second best is reported; a small lead may be chance (FramingFound::is_sure).

namespace {

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

// Nats a token by which another framing must lead the bundle's own.
constexpr double kLeast = 0.05;
// Framings whose scores are shown.
constexpr size_t kMostEvidence = 12;

struct Scored {
  Framing framing;
  double log_prob = 0;  // mean of a token of the pairs' targets, the end token included
  int64_t tokens = 0;
};

void Append(const bundle::TextCodec& codec, absl::Span<const absl::string_view> usual,
            std::vector<std::string>& choices) {
  for (const absl::string_view token : usual) {
    std::string text(token);
    if (codec.TokenId(text) >= 0 &&
        std::find(choices.begin(), choices.end(), text) == choices.end()) {
      choices.push_back(std::move(text));
    }
  }
}

std::string Shown(const std::string& token) {
  return token.empty() ? "nothing" : absl::StrCat("'", token, "'");
}

absl::StatusOr<ModelPtr> Compile(const bundle::Bundle& bundle, const std::string& source_vocabulary,
                                 const std::string& target_vocabulary, const Framing& framing) {
  bundle::Bundle framed = bundle;
  SetFraming(framing, framed.config);
  BW_ASSIGN_OR_RETURN(framed.source,
                      bundle::TextCodec::Create(framed.config.source(), source_vocabulary));
  BW_ASSIGN_OR_RETURN(framed.target,
                      bundle::TextCodec::Create(framed.config.target(), target_vocabulary));
  engine::CompileOptions options;
  options.token_table_share = 0;  // of no use for a few pairs
  return engine::DecodeModel::Compile(std::move(framed), options);
}

// The source as text, or padded to `length`.
absl::StatusOr<v1::Source> SourceOf(const bundle::TextCodec& codec, const std::string& text,
                                    int length) {
  v1::Source source;
  if (length == 0) {
    source.set_text(text);
    return source;
  }
  BW_ASSIGN_OR_RETURN(bundle::EncodedText encoded, codec.Encode(text));
  if (encoded.ids.size() > static_cast<size_t>(length)) {
    return Invalid("the source is longer than ", length);
  }
  encoded.ids.resize(static_cast<size_t>(length), codec.pad_id());
  source.mutable_ids()->mutable_ids()->Add(encoded.ids.begin(), encoded.ids.end());
  return source;
}

// The mean log-probability of a token of the targets. length: that sources are padded to; 0: as the
// model says.
absl::StatusOr<Scored> MeanLogProb(const ModelPtr& model, const std::vector<KnownPair>& pairs,
                                   int length) {
  engine::EngineOptions options;
  options.num_threads = 1;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine, engine::Engine::Start(options));
  double sum = 0;
  int64_t tokens = 0;
  for (const KnownPair& pair : pairs) {
    v1::ScoreSource source;
    absl::StatusOr<v1::Source> read = SourceOf(model->source(), pair.source, length);
    if (!read.ok()) {
      return Annotate(read.status(), absl::StrCat("line ", pair.line));
    }
    *source.mutable_source() = *std::move(read);
    source.add_targets()->set_text(pair.target);
    const absl::StatusOr<v1::Scored> scored = engine->ScoreAndWait(model, source, {});
    if (!scored.ok()) {
      return Annotate(scored.status(), absl::StrCat("line ", pair.line));
    }
    const v1::Hypothesis& hypothesis = scored->targets(0).hypothesis();
    sum += hypothesis.log_prob();
    tokens += hypothesis.tokens_size();
  }
  return Scored{{}, sum / static_cast<double>(std::max<int64_t>(tokens, 1)), tokens};
}

// Lengths that sources may have been padded to: that of the longest pair and a few more, and usual
// ones. Empty if a mask, a length or a fixed extent states it.
std::vector<int> PaddedLengths(const bundle::Bundle& bundle, const std::vector<KnownPair>& pairs) {
  const v1::TextConfig& source = bundle.config.source();
  if (source.pad_token().empty() || source.pad_to_length() > 0 ||
      bundle.config.encoder().length_kind() != v1::LENGTH_INPUT_NONE) {
    return {};
  }
  size_t longest = 0;
  for (const KnownPair& pair : pairs) {
    const auto ids = bundle.source->EncodePart(pair.source);
    longest = std::max(longest, ids.ok() ? ids->size() : 0);
  }
  if (longest == 0) {
    return {};
  }
  const int least = static_cast<int>(longest);
  constexpr int kNear = 8;
  constexpr int kUsual[] = {10, 12, 15, 16, 20, 24, 25, 30, 32, 40, 48, 50, 60, 64, 80, 100, 128};
  std::vector<int> lengths;
  for (int length = least; length <= least + kNear; ++length) {
    lengths.push_back(length);
  }
  std::copy_if(std::begin(kUsual), std::end(kUsual), std::back_inserter(lengths),
               [least](int length) { return length > least + kNear; });
  return lengths;
}

}  // namespace

absl::StatusOr<std::vector<KnownPair>> ParsePairs(const std::string& content) {
  std::vector<KnownPair> pairs;
  int line = 0;
  for (const absl::string_view text : absl::StrSplit(content, '\n')) {
    ++line;
    if (text.empty() || text == "\r" || pairs.size() == kMostPairs) {
      continue;
    }
    const std::vector<std::string> sides =
        absl::StrSplit(absl::StripSuffix(text, "\r"), absl::MaxSplits('\t', 1));
    if (sides.size() != 2 || sides[0].empty() || sides[1].empty() || !CheckUtf8(text).ok()) {
      return Invalid("line ", line, " is not a source and its target in UTF-8 with a tab between");
    }
    pairs.push_back({line, sides[0], sides[1]});
  }
  return pairs.empty() ? absl::StatusOr<std::vector<KnownPair>>(Invalid("has no pairs"))
                       : std::move(pairs);
}

bool FramingChoices::open() const {
  return source_begins.size() * source_ends.size() * target_begins.size() > 1;
}

FramingChoices UsualFramings(const bundle::Bundle& bundle) {
  FramingChoices choices;
  const Framing own = FramingOf(bundle.config);
  choices.source_begins = {own.source_begin};
  choices.source_ends = {own.source_end};
  if (bundle.source->size() > 0 && bundle.config.source().form() != v1::TEXT_FORM_IDS) {
    Append(*bundle.source, kUsualBegins, choices.source_begins);
    Append(*bundle.source, kUsualEnds, choices.source_ends);
  }
  choices.target_begins = {own.target_begin};
  for (const auto usual : {absl::MakeConstSpan(kUsualBegins), absl::MakeConstSpan(kUsualEnds),
                           absl::MakeConstSpan(kUsualPads)}) {
    Append(*bundle.target, usual, choices.target_begins);
  }
  return choices;
}

absl::StatusOr<FramingFound> FindFraming(const bundle::Bundle& bundle,
                                         const std::string& source_vocabulary,
                                         const std::string& target_vocabulary,
                                         const FramingChoices& choices,
                                         const std::vector<KnownPair>& pairs) {
  std::vector<Scored> tried;
  absl::Status unread;
  std::vector<int> lengths = PaddedLengths(bundle, pairs);
  lengths.insert(lengths.begin(), 0);
  const auto attempt = [&](Framing framing) -> absl::Status {
    BW_ASSIGN_OR_RETURN(const ModelPtr model,
                        Compile(bundle, source_vocabulary, target_vocabulary, framing));
    for (const int length : lengths) {
      absl::StatusOr<Scored> scored = MeanLogProb(model, pairs, length);
      unread.Update(scored.status());
      framing.pad_to_length = length == 0 ? framing.pad_to_length : length;
      if (scored.ok()) {
        scored->framing = framing;
        tried.push_back(*std::move(scored));
      }
    }
    return absl::OkStatus();
  };
  for (const std::string& source_begin : choices.source_begins) {
    for (const std::string& source_end : choices.source_ends) {
      for (const std::string& target_begin : choices.target_begins) {
        BW_RETURN_IF_ERROR(attempt(
            {source_begin, source_end, target_begin, FramingOf(bundle.config).pad_to_length}));
      }
    }
  }
  if (tried.empty()) {
    return unread;
  }
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Scored& a, const Scored& b) { return a.log_prob > b.log_prob; });
  FramingFound found;
  const auto own = std::find_if(tried.begin(), tried.end(), [&](const Scored& scored) {
    return scored.framing == FramingOf(bundle.config);
  });
  const bool keeps = own != tried.end() && tried[0].log_prob - own->log_prob < kLeast;
  found.framing = keeps ? own->framing : tried[0].framing;
  found.tokens = tried[0].tokens;
  found.lead = tried.size() > 1 ? tried[0].log_prob - tried[1].log_prob
                                : std::numeric_limits<double>::infinity();
  tried.resize(std::min<size_t>(tried.size(), kMostEvidence));
  for (const Scored& scored : tried) {
    found.evidence.push_back(absl::StrFormat("%s: log-probability %.3f a token",
                                             ToString(scored.framing), scored.log_prob));
  }
  return found;
}

std::string ToString(const Framing& framing) {
  return absl::StrCat(
      "source after ", Shown(framing.source_begin), " and before ", Shown(framing.source_end),
      ", target after ", Shown(framing.target_begin),
      framing.pad_to_length == 0 ? "" : absl::StrCat(", source padded to ", framing.pad_to_length));
}

Framing FramingOf(const v1::ModelConfig& config) {
  const v1::TextConfig& source = config.source();
  return {source.begin_token(), source.end_tokens().empty() ? "" : source.end_tokens(0),
          config.target().begin_token(), source.pad_to_length()};
}

void SetFraming(const Framing& framing, v1::ModelConfig& config) {
  v1::TextConfig& source = *config.mutable_source();
  source.set_begin_token(framing.source_begin);
  source.clear_end_tokens();
  if (!framing.source_end.empty()) {
    source.add_end_tokens(framing.source_end);
  }
  source.set_pad_to_length(framing.pad_to_length);
  config.mutable_target()->set_begin_token(framing.target_begin);
}

}  // namespace beamwright::tools
