// Text by a file that says how it is cut: by byte-level BPE and RWKV's tables (tokenizer_file.h),
// by Unigram or WordPiece (piece_tokenizer.h).
//
// TokenizerCodec, the way of a text:
//
// 1. Encode looks at each place for an added token, the longest first; such tokens are never merged
//    with their neighbours.
// 2. EncodeWords applies the file's splits in order to what lies between them, or cuts the longest
//    token each time (RWKV).
// 3. EncodeWord starts with the tokens of the word's bytes; Merged joins pairs, that of the lowest
//    rank first. Candidates are in a heap, and a pair whose tokens have changed since is skipped
//    when it is popped.
//
// PieceCodec leaves the cutting to PieceTokenizer and only maps what special tokens and unknown
// pieces become. Both write tokens as bytes and make valid UTF-8 of them at the end, since a token
// may hold half a character.

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/piece_tokenizer.h"
#include "engine/bundle/tokenizer_file.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {

// Text by a file that says how it is cut (tokenizer_file.h). Text is bytes here: added tokens are
// found first, text between them is split into words, and each word is merged, the pair of the
// lowest rank first, from its bytes on (Sennrich et al. 2016 over bytes, as GPT-2 does it). What
// tokens write is their bytes in a row, so text that was cut comes back as it was.

namespace {

// A pair of neighbours that merges, the lowest rank first, then the leftmost.
struct Candidate {
  int32_t rank;
  int32_t at;
  int32_t left;  // the tokens when it was found: others since then make it void
  int32_t right;

  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

class TokenizerCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content) {
    auto codec = absl::WrapUnique(new TokenizerCodec);
    BW_RETURN_IF_ERROR(CheckFileCuts(config));
    auto file = TokenizerFile::Parse(content);
    if (!file.ok()) {
      return Annotate(file.status(), absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
    }
    codec->file_ = *std::move(file);
    BW_RETURN_IF_ERROR(codec->BuildTables());
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->TokenId(token); }));
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    EncodedText encoded = Begin();
    size_t begin = 0;  // of what no added token took yet
    for (size_t at = 0; at < text.size();) {
      const TokenizerFile::Added* const added = AddedAt(text.substr(at));
      if (added == nullptr) {
        ++at;
        continue;
      }
      const absl::string_view before = text.substr(begin, at - begin);
      BW_RETURN_IF_ERROR(EncodeWords(
          added->takes_left ? absl::StripTrailingAsciiWhitespace(before) : before, encoded));
      encoded.ids.push_back(added->id);
      absl::string_view rest =
          text.substr(at + file_.tokens[static_cast<size_t>(added->id)].text.size());
      rest = added->takes_right ? absl::StripLeadingAsciiWhitespace(rest) : rest;
      at = begin = text.size() - rest.size();
    }
    BW_RETURN_IF_ERROR(EncodeWords(text.substr(begin), encoded));
    return End(std::move(encoded));
  }

  std::string Written(int32_t id, bool /*is_first*/) const override {
    return IsSilent(id) || special_.contains(id) ? ""
           : IsKnown(id)                         ? file_.tokens[static_cast<size_t>(id)].bytes
                                                 : absl::StrCat("<", id, ">");
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string bytes;
    for (const int32_t id : ids) {
      bytes += Written(id, bytes.empty());
    }
    return ValidUtf8(bytes);
  }

  int32_t TokenId(const std::string& token) const override {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string TokenText(int32_t id) const override {
    return IsKnown(id) ? file_.tokens[static_cast<size_t>(id)].text : absl::StrCat("<", id, ">");
  }
  int size() const override { return static_cast<int>(file_.tokens.size()); }

 private:
  TokenizerCodec() = default;

  bool IsKnown(int32_t id) const {
    return id >= 0 && id < size() && !file_.tokens[static_cast<size_t>(id)].text.empty();
  }

  // Tables for the look-ups of Encode: tokens by text and by bytes, added tokens by their first
  // byte (the longest first), the token of each single byte, and merges by their pair.
  absl::Status BuildTables() {
    of_byte_.fill(-1);
    for (int32_t id = 0; id < size(); ++id) {
      const TokenizerFile::Token& token = file_.tokens[static_cast<size_t>(id)];
      if (token.text.empty()) {
        continue;
      }
      if (!ids_.emplace(token.text, id).second) {
        return Invalid("vocabulary: two ids have the token '", token.text, "'");
      }
      if (!file_.takes_longest || id > 0) {
        of_bytes_.emplace(token.bytes, id);
        longest_ = std::max(longest_, token.bytes.size());
      }
    }
    for (const TokenizerFile::Added& added : file_.added) {
      const TokenizerFile::Token& token = file_.tokens[static_cast<size_t>(added.id)];
      added_by_first_[static_cast<unsigned char>(token.text[0])].push_back(&added);
      of_bytes_.erase(token.bytes);
      if (added.is_special) {
        special_.insert(added.id);
      }
    }
    for (auto& list : added_by_first_) {
      std::stable_sort(list.begin(), list.end(), [this](const auto* a, const auto* b) {
        return file_.tokens[static_cast<size_t>(a->id)].text.size() >
               file_.tokens[static_cast<size_t>(b->id)].text.size();
      });
    }
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = of_bytes_.find(std::string(1, static_cast<char>(byte)));
      of_byte_[static_cast<size_t>(byte)] = found == of_bytes_.end() ? -1 : found->second;
    }
    for (size_t rank = 0; rank < file_.merges.size(); ++rank) {
      const TokenizerFile::Merge& merge = file_.merges[rank];
      merges_.emplace(std::make_pair(merge.left, merge.right),
                      std::make_pair(static_cast<int32_t>(rank), merge.joined));
    }
    return absl::OkStatus();
  }

  // The longest added token that `text` begins with, but for begin, end and pad.
  const TokenizerFile::Added* AddedAt(absl::string_view text) const {
    for (const TokenizerFile::Added* const added :
         added_by_first_[static_cast<unsigned char>(text[0])]) {
      if (!IsSilent(added->id) &&
          absl::StartsWith(text, file_.tokens[static_cast<size_t>(added->id)].text)) {
        return added;
      }
    }
    return nullptr;
  }

  absl::Status EncodeWords(absl::string_view text, EncodedText& encoded) const {
    if (file_.takes_longest) {
      return EncodeLongest(text, encoded);
    }
    std::vector<std::string> words;
    if (!text.empty()) {
      words.emplace_back(text);
    }
    for (const TokenizerFile::Split& split : file_.splits) {
      std::vector<std::string> next;
      for (std::string& word : words) {
        if (split.adds_space && word[0] != ' ') {
          word = absl::StrCat(" ", word);
        }
        if (!split.splits) {
          next.push_back(std::move(word));
          continue;
        }
        for (const absl::string_view piece : split.pattern.Split(word)) {
          next.emplace_back(piece);
        }
      }
      words = std::move(next);
    }
    for (const std::string& word : words) {
      BW_RETURN_IF_ERROR(EncodeWord(word, encoded));
    }
    return absl::OkStatus();
  }

  absl::Status EncodeLongest(absl::string_view text, EncodedText& encoded) const {
    const auto find = [this](absl::string_view bytes) {
      const auto found = of_bytes_.find(bytes);
      return found == of_bytes_.end() ? -1 : found->second;
    };
    while (!text.empty()) {
      size_t taken = 1;
      const int32_t id = LongestToken(text, longest_, find, taken);
      if (id < 0) {
        taken = 1;
        BW_RETURN_IF_ERROR(AppendUnknown(text.substr(0, 1), "piece", encoded.ids.size(), encoded));
      } else {
        encoded.ids.push_back(id);
      }
      text.remove_prefix(taken);
    }
    return absl::OkStatus();
  }

  absl::Status EncodeWord(const std::string& word, EncodedText& encoded) const {
    if (file_.takes_whole_words) {
      if (const auto found = of_bytes_.find(word); found != of_bytes_.end()) {
        encoded.ids.push_back(found->second);
        return absl::OkStatus();
      }
    }
    std::vector<int32_t> ids;
    for (size_t at = 0; at < word.size(); ++at) {
      ids.push_back(of_byte_[static_cast<unsigned char>(word[at])]);
      if (ids.back() < 0) {
        return AppendUnknown(word.substr(at, 1), "byte", encoded.ids.size(), encoded);
      }
    }
    for (const int32_t id : Merged(std::move(ids))) {
      encoded.ids.push_back(id);
    }
    return absl::OkStatus();
  }

  // The tokens that merging leaves, in a time of O(n log n).
  std::vector<int32_t> Merged(std::vector<int32_t> ids) const {
    const auto count = static_cast<int32_t>(ids.size());
    std::vector<int32_t> next(ids.size());
    std::vector<int32_t> previous(ids.size());
    for (int32_t at = 0; at < count; ++at) {
      next[static_cast<size_t>(at)] = at + 1;
      previous[static_cast<size_t>(at)] = at - 1;
    }
    std::priority_queue<Candidate> candidates;
    const auto look = [&](int32_t at) {
      const int32_t behind = at < 0 ? count : next[static_cast<size_t>(at)];
      if (behind >= count) {
        return;
      }
      const int32_t left = ids[static_cast<size_t>(at)];
      const int32_t right = ids[static_cast<size_t>(behind)];
      const auto found = merges_.find(std::make_pair(left, right));
      if (found != merges_.end()) {
        candidates.push({found->second.first, at, left, right});
      }
    };
    for (int32_t at = 0; at + 1 < count; ++at) {
      look(at);
    }
    while (!candidates.empty()) {
      const Candidate best = candidates.top();
      candidates.pop();
      const auto at = static_cast<size_t>(best.at);
      const int32_t behind = next[at];
      if (ids[at] != best.left || behind >= count ||
          ids[static_cast<size_t>(behind)] != best.right) {
        continue;
      }
      ids[at] = merges_.find(std::make_pair(best.left, best.right))->second.second;
      ids[static_cast<size_t>(behind)] = -1;
      next[at] = next[static_cast<size_t>(behind)];
      if (next[at] < count) {
        previous[static_cast<size_t>(next[at])] = best.at;
      }
      look(previous[at]);
      look(best.at);
    }
    ids.erase(std::remove(ids.begin(), ids.end(), -1), ids.end());
    return ids;
  }

  TokenizerFile file_;
  absl::flat_hash_map<std::string, int32_t> ids_;       // by the token's text
  absl::flat_hash_map<std::string, int32_t> of_bytes_;  // by its bytes; without added tokens
  std::array<int32_t, 256> of_byte_;
  std::array<std::vector<const TokenizerFile::Added*>, 256> added_by_first_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> merges_;
  absl::flat_hash_set<int32_t> special_;  // as transformers' skip_special_tokens leaves them out
  size_t longest_ = 0;                    // token, in bytes
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateTokenizerCodec(const v1::TextConfig& config,
                                                                const std::string& content) {
  return PieceTokenizer::IsFor(content) ? CreatePieceCodec(config, content)
                                        : TokenizerCodec::Create(config, content);
}

// Text by a tokenizer.json whose model is Unigram or WordPiece (piece_tokenizer.h). Unigram's
// tokens write a space for their mark, and bytes for <0xE6>; WordPiece's a space where a word
// begins.

namespace {

class PieceCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content) {
    auto codec = absl::WrapUnique(new PieceCodec);
    BW_RETURN_IF_ERROR(CheckFileCuts(config));
    auto pieces = PieceTokenizer::Parse(content);
    if (!pieces.ok()) {
      return Annotate(pieces.status(), absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
    }
    codec->pieces_ = *std::move(pieces);
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->TokenId(token); }));
    if (codec->unknown_id_ < 0) {
      codec->unknown_id_ = codec->pieces_.unknown_id();
    }
    for (int32_t id = 0; id < codec->size(); ++id) {
      codec->skips_.push_back(codec->IsSilent(id));
    }
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::vector<PieceTokenizer::Piece> pieces = pieces_.Cut(text, skips_);
    if (pieces.empty()) {
      return status::InvalidField("text",
                                  "nothing is left of it after the tokenizer's normalisers");
    }
    EncodedText encoded = Begin();
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].first >= 0 && !skips_[static_cast<size_t>(pieces[i].first)]) {
        encoded.ids.push_back(pieces[i].first);
      } else {
        BW_RETURN_IF_ERROR(AppendUnknown(pieces[i].second, "piece", i, encoded));
      }
    }
    return End(std::move(encoded));
  }

  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id)) {
      return "";
    }
    const std::string token = TokenText(id);
    if (pieces_.is_word_piece()) {
      const bool goes_on = token.size() > pieces_.continuation().size() &&
                           absl::StartsWith(token, pieces_.continuation());
      return goes_on ? token.substr(pieces_.continuation().size())
                     : absl::StrCat(is_first ? "" : " ", token);
    }
    if (const int byte = ByteOfPiece(token); byte >= 0) {
      return std::string(1, static_cast<char>(byte));
    }
    std::string text = absl::StrReplaceAll(token, {{kWordBegin, " "}});
    text.erase(0, is_first && absl::StartsWith(text, " ") ? 1 : 0);
    return text;
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string bytes;
    bool is_first = true;
    for (const int32_t id : ids) {
      bytes += Written(id, is_first);
      is_first = is_first && IsSilent(id);
    }
    return ValidUtf8(bytes);
  }

  int32_t TokenId(const std::string& token) const override { return pieces_.Find(token); }
  std::string TokenText(int32_t id) const override {
    const bool is_known =
        id >= 0 && id < size() && !pieces_.tokens()[static_cast<size_t>(id)].empty();
    return is_known ? pieces_.tokens()[static_cast<size_t>(id)] : absl::StrCat("<", id, ">");
  }
  int size() const override { return static_cast<int>(pieces_.tokens().size()); }

 private:
  PieceCodec() = default;

  PieceTokenizer pieces_;
  std::vector<bool> skips_;  // by id: begin, end and padding, which no text stands for
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreatePieceCodec(const v1::TextConfig& config,
                                                            const std::string& content) {
  return PieceCodec::Create(config, content);
}

}  // namespace beamwright::bundle
