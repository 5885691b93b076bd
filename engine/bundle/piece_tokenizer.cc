// Tokenizers of the kinds Unigram and WordPiece, as tokenizer.json of Hugging Face describes them.
//
// Parse reads the normaliser (Normaliser), the pre-tokenizers (ReadSplits), the vocabulary
// (ReadModel) and the added tokens (ReadTokens). Types of these that are not known are errors,
// since a text would be cut into other tokens than those that the model was trained on.
//
// Cut, a text into pieces:
//
// 1. Added tokens that apply to the text as it is ("normalized": false, such as <s>) are found
//    first, the longest at each place; they split the text. An added token may take the white space
//    on its left or right.
// 2. What lies between is normalised, and searched for the added tokens that apply to normalised
//    text (CutNormalised).
// 3. The pre-tokenizers split what is left into words (CutWords, SplitWord), one after another: at
//    white space, at punctuation, or by Metaspace, which writes a mark for a space and begins a
//    word with each mark.
// 4. A word becomes pieces: WordPiece takes the longest token that the rest begins with, again and
//    again (CutLongest), and a word that cannot be cut so is unknown as a whole; Unigram finds the
//    split with the highest sum of scores (CutLikeliest).
//
// Example of Unigram with Metaspace: "new york" becomes the words "▁new" and "▁york", and "▁york"
// the pieces "▁yo" and "rk" if their scores together are higher than those of any other split.
//
// A piece without an id (-1) is unknown. With byte_fallback, an unknown piece becomes the tokens
// <0x00> to <0xFF> of its bytes.
#include "engine/bundle/piece_tokenizer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/bundle/tokenizer_file.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

// An unknown character scores this much below the least probable token (as SentencePiece has it).
constexpr double kUnknownPenalty = 10;

bool Parses(absl::string_view content, rapidjson::Document& document) {
  document.Parse<rapidjson::kParseIterativeFlag>(content.data(), content.size());
  return !document.HasParseError() && document.IsObject();
}

// The model's type. Older files do not state it; the members of WordPiece show it then.
absl::string_view ModelType(const Json& document) {
  const Json* const model = Member(document, "model");
  if (model == nullptr) {
    return "";
  }
  const bool is_word_piece =
      TypeOf(*model).empty() && Member(*model, "max_input_chars_per_word") != nullptr;
  return is_word_piece ? "WordPiece" : TypeOf(*model);
}

size_t CharacterSize(absl::string_view text) {
  return static_cast<size_t>(std::max(Utf8Length(text), 1));
}

// The size of the white space at the end of `text`.
size_t WhiteTail(absl::string_view text) {
  size_t tail = 0;
  while (tail < text.size()) {
    size_t at = text.size() - tail - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
      --at;
    }
    char32_t c = 0;
    if (Utf8Length(text.substr(at), &c) == 0 || !IsWhiteSpace(c)) {
      break;
    }
    tail = text.size() - at;
  }
  return tail;
}

size_t WhiteHead(absl::string_view text) {
  size_t head = 0;
  char32_t c = 0;
  while (head < text.size() && Utf8Length(text.substr(head), &c) > 0 && IsWhiteSpace(c)) {
    head += CharacterSize(text.substr(head));
  }
  return head;
}

}  // namespace

bool PieceTokenizer::IsFor(absl::string_view content) {
  rapidjson::Document document;
  if (!Parses(content, document)) {
    return false;
  }
  const absl::string_view type = ModelType(document);
  return type == "Unigram" || type == "WordPiece";
}

absl::StatusOr<PieceTokenizer> PieceTokenizer::Parse(absl::string_view content) {
  rapidjson::Document document;
  if (!Parses(content, document)) {
    return Invalid("is not JSON");
  }
  PieceTokenizer made;
  made.is_word_piece_ = ModelType(document) == "WordPiece";
  BW_ASSIGN_OR_RETURN(made.normaliser_, Normaliser::Read(Member(document, "normalizer")));
  BW_RETURN_IF_ERROR(made.ReadSplits(document));
  BW_RETURN_IF_ERROR(made.ReadTokens(document));
  return made;
}

absl::Status PieceTokenizer::SetToken(absl::string_view text, int64_t id, const char* where) {
  if (id < 0 || static_cast<size_t>(id) >= most_ids_ || text.empty()) {
    return Invalid(where, ": '", absl::Utf8SafeCEscape(text), "' has no usable id or text");
  }
  const auto place = static_cast<size_t>(id);
  tokens_.resize(std::max(tokens_.size(), place + 1));
  if (!tokens_[place].empty() && tokens_[place] != text) {
    return Invalid(where, ": id ", id, " is that of '", absl::Utf8SafeCEscape(tokens_[place]),
                   "' and of '", absl::Utf8SafeCEscape(text), "'");
  }
  tokens_[place] = std::string(text);
  ids_[tokens_[place]] = static_cast<int32_t>(id);
  longest_ = std::max(longest_, text.size());
  return absl::OkStatus();
}

absl::Status PieceTokenizer::ReadModel(const Json& model) {
  const Json* const vocabulary = Member(model, "vocab");
  if (is_word_piece_) {
    if (vocabulary == nullptr || !vocabulary->IsObject()) {
      return Invalid("model.vocab: an object is expected");
    }
    for (const auto& member : vocabulary->GetObject()) {
      BW_RETURN_IF_ERROR(SetToken(
          Text(member.name), member.value.IsInt() ? member.value.GetInt() : -1, "model.vocab"));
    }
    continuation_ = std::string(TextOf(model, "continuing_subword_prefix"));
    const Json* const most = Member(model, "max_input_chars_per_word");
    most_characters_ = most != nullptr && most->IsInt() ? most->GetInt() : 100;
    unknown_id_ = Find(TextOf(model, "unk_token"));
    return absl::OkStatus();
  }
  if (vocabulary == nullptr || !vocabulary->IsArray()) {
    return Invalid("model.vocab: a list is expected");
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Json& entry : vocabulary->GetArray()) {
    if (!entry.IsArray() || entry.Size() != 2 || !entry[1].IsNumber()) {
      return Invalid("model.vocab[", scores_.size(), "]: a token and its score are expected");
    }
    BW_RETURN_IF_ERROR(
        SetToken(Text(entry[0]), static_cast<int64_t>(scores_.size()), "model.vocab"));
    scores_.push_back(entry[1].GetDouble());
    least = std::min(least, scores_.back());
  }
  unknown_score_ = least - kUnknownPenalty;
  byte_fallback_ = IsTrue(model, "byte_fallback");
  const Json* const unknown = Member(model, "unk_id");
  unknown_id_ = unknown != nullptr && unknown->IsInt() ? unknown->GetInt() : -1;
  if (unknown_id_ >= static_cast<int32_t>(scores_.size())) {
    return Invalid("model.unk_id: ", unknown_id_, " is the id of no token");
  }
  return absl::OkStatus();
}

absl::Status PieceTokenizer::ReadTokens(const Json& document) {
  const Json& model = *Member(document, "model");
  const Json* const vocabulary = Member(model, "vocab");
  const Json* const added = Member(document, "added_tokens");
  const size_t count = vocabulary == nullptr    ? 0
                       : vocabulary->IsObject() ? vocabulary->MemberCount()
                       : vocabulary->IsArray()  ? vocabulary->Size()
                                                : 0;
  most_ids_ = 2 * (count + (added != nullptr && added->IsArray() ? added->Size() : 0)) + 1024;
  BW_RETURN_IF_ERROR(ReadModel(model));
  for (size_t i = 0; added != nullptr && added->IsArray() && i < added->Size(); ++i) {
    const Json& one = (*added)[static_cast<rapidjson::SizeType>(i)];
    const Json* const id = Member(one, "id");
    const absl::string_view text = TextOf(one, "content");
    if (IsTrue(one, "single_word")) {
      return Invalid("added_tokens: '", absl::Utf8SafeCEscape(text), "': single_word is not read");
    }
    BW_RETURN_IF_ERROR(
        SetToken(text, id != nullptr && id->IsInt() ? id->GetInt() : -1, "added_tokens"));
    added_.push_back({std::string(text), id->GetInt(), IsTrue(one, "lstrip"), IsTrue(one, "rstrip"),
                      IsTrue(one, "normalized")});
  }
  std::stable_sort(added_.begin(), added_.end(),
                   [](const Added& a, const Added& b) { return a.text.size() > b.text.size(); });
  return absl::OkStatus();
}

absl::Status PieceTokenizer::ReadSplits(const Json& document) {
  for (const Json* const one : Sequence(Member(document, "pre_tokenizer"), "pretokenizers")) {
    const absl::string_view type = TypeOf(*one);
    Split& split = splits_.emplace_back();
    if (type == "BertPreTokenizer") {
      split.at_punctuation = true;
    } else if (type == "Metaspace") {
      const absl::string_view scheme = TextOf(*one, "prepend_scheme");
      const bool prepends = IsTrue(*one, "add_prefix_space", true);
      split.is_metaspace = true;
      split.mark = std::string(TextOf(*one, "replacement"));
      split.splits = IsTrue(*one, "split", true);
      split.prepend = scheme == "first"                ? Prepend::kFirst
                      : scheme == "never" || !prepends ? Prepend::kNever
                                                       : Prepend::kAlways;
      if (split.mark.empty()) {
        return Invalid("pre_tokenizer: Metaspace has no replacement");
      }
    } else if (type != "WhitespaceSplit") {
      return Invalid("pre_tokenizer: '", absl::Utf8SafeCEscape(type),
                     "' is not read; BertPreTokenizer, Metaspace and WhitespaceSplit are");
    }
  }
  return absl::OkStatus();
}

int32_t PieceTokenizer::Find(absl::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const PieceTokenizer::Added* PieceTokenizer::AddedAt(absl::string_view text, bool normalised,
                                                     const std::vector<bool>& skips) const {
  for (const Added& added : added_) {
    if (added.normalised == normalised && !skips[static_cast<size_t>(added.id)] &&
        absl::StartsWith(text, added.text)) {
      return &added;
    }
  }
  return nullptr;
}

std::vector<PieceTokenizer::Piece> PieceTokenizer::Cut(absl::string_view text,
                                                       const std::vector<bool>& skips) const {
  std::vector<Piece> pieces;
  size_t begin = 0;  // of the text after the last added token
  for (size_t at = 0; at < text.size();) {
    const Added* const added = AddedAt(text.substr(at), /*normalised=*/false, skips);
    if (added == nullptr) {
      at += CharacterSize(text.substr(at));
      continue;
    }
    absl::string_view before = text.substr(begin, at - begin);
    before.remove_suffix(added->takes_left ? WhiteTail(before) : 0);
    CutNormalised(normaliser_.Apply(before), begin == 0, skips, pieces);
    pieces.push_back({added->id, added->text});
    at += added->text.size();
    at += added->takes_right ? WhiteHead(text.substr(at)) : 0;
    begin = at;
  }
  CutNormalised(normaliser_.Apply(text.substr(begin)), begin == 0, skips, pieces);
  return pieces;
}

void PieceTokenizer::CutNormalised(absl::string_view text, bool is_first,
                                   const std::vector<bool>& skips,
                                   std::vector<Piece>& pieces) const {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Added* const added = AddedAt(text.substr(at), /*normalised=*/true, skips);
    if (added == nullptr) {
      at += CharacterSize(text.substr(at));
      continue;
    }
    absl::string_view before = text.substr(begin, at - begin);
    before.remove_suffix(added->takes_left ? WhiteTail(before) : 0);
    CutWords(before, is_first && begin == 0, pieces);
    pieces.push_back({added->id, added->text});
    at += added->text.size();
    at += added->takes_right ? WhiteHead(text.substr(at)) : 0;
    begin = at;
  }
  CutWords(text.substr(begin), is_first && begin == 0, pieces);
}

void PieceTokenizer::SplitWord(const Split& split, const Word& word, std::vector<Word>& words) {
  if (split.is_metaspace) {
    std::string text = absl::StrReplaceAll(word.text, {{" ", split.mark}});
    const bool prepends =
        split.prepend == Prepend::kAlways || (split.prepend == Prepend::kFirst && word.is_first);
    if (prepends && !absl::StartsWith(text, split.mark)) {
      text.insert(0, split.mark);
    }
    size_t begin = 0;
    for (size_t at = split.splits ? text.find(split.mark, 1) : std::string::npos;
         at != std::string::npos; at = text.find(split.mark, at + 1)) {
      words.push_back({text.substr(begin, at - begin), word.is_first && begin == 0});
      begin = at;
    }
    words.push_back({text.substr(begin), word.is_first && begin == 0});
    return;
  }
  std::string run;
  size_t at = 0;
  size_t run_begin = 0;
  const auto flush = [&] {
    if (!run.empty()) {
      words.push_back({std::move(run), word.is_first && run_begin == 0});
    }
    run.clear();
  };
  while (at < word.text.size()) {
    const absl::string_view rest = absl::string_view(word.text).substr(at);
    const size_t size = CharacterSize(rest);
    char32_t c = 0;
    Utf8Length(rest, &c);
    if (IsWhiteSpace(c)) {
      flush();
    } else if (split.at_punctuation && IsPunctuation(c)) {
      flush();
      words.push_back({std::string(rest.substr(0, size)), word.is_first && at == 0});
    } else {
      run_begin = run.empty() ? at : run_begin;
      run.append(rest.data(), size);
    }
    at += size;
  }
  flush();
}

void PieceTokenizer::CutWords(absl::string_view text, bool is_first,
                              std::vector<Piece>& pieces) const {
  std::vector<Word> words;
  if (!text.empty()) {
    words.push_back({std::string(text), is_first});
  }
  for (const Split& split : splits_) {
    std::vector<Word> next;
    for (const Word& word : words) {
      SplitWord(split, word, next);
    }
    words = std::move(next);
  }
  for (const Word& word : words) {
    is_word_piece_ ? CutLongest(word.text, pieces) : CutLikeliest(word.text, pieces);
  }
}

void PieceTokenizer::CutLongest(const std::string& word, std::vector<Piece>& pieces) const {
  const size_t before = pieces.size();
  bool is_cut = CountCharacters(word) <= most_characters_;
  for (size_t at = 0; is_cut && at < word.size();) {
    const std::string prefix = at == 0 ? "" : continuation_;
    size_t size = std::min(word.size() - at, longest_);
    int32_t id = -1;
    for (; size > 0; --size) {
      id = Find(absl::StrCat(prefix, absl::string_view(word).substr(at, size)));
      if (id >= 0) {
        break;
      }
    }
    is_cut = id >= 0;
    pieces.push_back({id, word.substr(at, size)});
    at += size;
  }
  if (!is_cut) {
    pieces.resize(before);
    pieces.push_back({-1, word});
  }
}

// Viterbi's search over the word's bytes: best[i] is the best split of the first i bytes. A
// character that is no token gets the unknown score. Reading back from the end gives the pieces; a
// run of unknown characters becomes one piece.
void PieceTokenizer::CutLikeliest(const std::string& word, std::vector<Piece>& pieces) const {
  struct Node {
    double score = 0;
    size_t begin = std::string::npos;
    bool is_unknown = false;
  };
  std::vector<Node> best(word.size() + 1);
  const absl::string_view text = word;
  for (size_t at = 0; at < text.size();) {
    const size_t character = CharacterSize(text.substr(at));
    bool has_character = false;
    const auto offer = [&](size_t end, double score, bool is_unknown) {
      if (best[end].begin == std::string::npos || score > best[end].score) {
        best[end] = {score, at, is_unknown};
      }
    };
    for (size_t size = 1; size <= std::min(longest_, text.size() - at); ++size) {
      const int32_t id = Find(text.substr(at, size));
      if (id >= 0 && static_cast<size_t>(id) < scores_.size()) {
        offer(at + size, scores_[static_cast<size_t>(id)] + best[at].score, id == unknown_id_);
        has_character = has_character || size == character;
      }
    }
    if (!has_character) {
      offer(at + character, unknown_score_ + best[at].score, true);
    }
    at += character;
  }
  std::vector<std::string> found;  // from the end
  bool joins = false;              // the last one is of unknown characters
  for (size_t end = text.size(); end > 0; end = best[end].begin) {
    const Node& node = best[end];
    const absl::string_view piece = text.substr(node.begin, end - node.begin);
    if (node.is_unknown && joins) {
      found.back().insert(0, std::string(piece));
    } else {
      found.emplace_back(piece);
    }
    joins = node.is_unknown;
  }
  for (auto piece = found.rbegin(); piece != found.rend(); ++piece) {
    int32_t id = Find(*piece);
    id = id < static_cast<int32_t>(scores_.size()) ? id : -1;
    std::vector<Piece> bytes;
    for (size_t i = 0; id < 0 && byte_fallback_ && i < piece->size(); ++i) {
      const auto byte = static_cast<unsigned char>((*piece)[i]);
      bytes.push_back({Find(absl::StrFormat("<0x%02X>", byte)), piece->substr(i, 1)});
    }
    const bool are_known =
        !bytes.empty() &&
        std::all_of(bytes.begin(), bytes.end(), [](const Piece& byte) { return byte.first >= 0; });
    if (are_known) {
      pieces.insert(pieces.end(), bytes.begin(), bytes.end());
    } else {
      pieces.push_back({id, *piece});
    }
  }
}

}  // namespace beamwright::bundle
