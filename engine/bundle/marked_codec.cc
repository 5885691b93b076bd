// Pieces of words whose marks are not SentencePiece's '▁': '##', '@@', '</w>', and characters that
// stand for bytes. Each token has a surface: the bytes that it writes, with a space where a word
// begins ('##', bytes) or ends ('@@', '</w>'). An answer's text is its surfaces in a row, without
// the space at that end.
//
// 1. Surface reads a token's mark; FindSurfaces makes the table from surfaces to ids.
// 2. Encode writes the text as its surfaces would (WaysToWrite) and cuts that, the longest surface
//    first, as WordPiece does it, or into the fewest where that leaves something over.
// 3. WithUnknown cuts a text that has parts which no token writes.
//
// How a trained model cut its texts, by merges or by probabilities, is not in a list of tokens.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/bundle/codec_base.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/base/vocabulary.h"

namespace beamwright::bundle {
namespace {

// icefall writes ASCII as it is, and other bytes as the letters of Latin Extended that no
// normalisation changes, in their order.
char32_t IcefallCharacter(int byte) {
  if (byte >= 32 && byte <= 126) {
    return static_cast<char32_t>(byte);
  }
  char32_t character = 0x100;
  for (int left = byte < 32 ? byte : byte - 127 + 32; left > 0; --left) {
    ++character;
    character = character == 306 ? 308 : character == 319 ? 321 : character;
    character = character == 329 ? 330 : character == 383 ? 384 : character;
  }
  return character;
}

// What each character that stands for a byte stands for.
absl::flat_hash_map<char32_t, char> ByteTable(v1::SubwordMark mark) {
  if (mark == v1::SUBWORD_MARK_BYTES) {
    return GptBytes();
  }
  absl::flat_hash_map<char32_t, char> table;
  for (int byte = 0; byte < 256; ++byte) {
    table[IcefallCharacter(byte)] = static_cast<char>(byte);
  }
  return table;
}

bool IsOfBytes(v1::SubwordMark mark) {
  return mark == v1::SUBWORD_MARK_BYTES || mark == v1::SUBWORD_MARK_ICEFALL_BYTES;
}

// Whether the space of a mark stands before a word, not behind it.
bool SpaceIsFirst(v1::SubwordMark mark) {
  return mark != v1::SUBWORD_MARK_UNFINISHED && mark != v1::SUBWORD_MARK_WORD_END;
}

// What a token writes. No space is written between characters of scripts that have none.
std::string Surface(const std::string& token, v1::SubwordMark mark,
                    const absl::flat_hash_map<char32_t, char>& table) {
  if (const int byte = ByteOfPiece(token); byte >= 0) {
    return std::string(1, static_cast<char>(byte));
  }
  absl::string_view piece = token;
  switch (mark) {
    case v1::SUBWORD_MARK_CONTINUATION:
      if (piece.size() > 2 && absl::ConsumePrefix(&piece, "##")) {
        return std::string(piece);
      }
      return BeginsUnspaced(piece) ? token : absl::StrCat(" ", piece);
    case v1::SUBWORD_MARK_UNFINISHED:
      if (piece.size() > 2 && absl::ConsumeSuffix(&piece, "@@")) {
        return std::string(piece);
      }
      return EndsUnspaced(piece) ? token : absl::StrCat(piece, " ");
    case v1::SUBWORD_MARK_WORD_END:
      if (!absl::ConsumeSuffix(&piece, "</w>")) {
        return token;
      }
      return EndsUnspaced(piece) ? std::string(piece) : absl::StrCat(piece, " ");
    case v1::SUBWORD_MARK_BYTES:
      return BytesOfPiece(token, table);
    default:
      break;
  }
  if (mark == v1::SUBWORD_MARK_ICEFALL_BYTES) {
    return BytesOfPiece(absl::StrReplaceAll(token, {{kWordBegin, " "}}), table);
  }
  return absl::StrReplaceAll(token, {{kWordBegin, " "}});
}

class MarkedCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           Vocabulary vocabulary) {
    auto codec = absl::WrapUnique(new MarkedCodec);
    codec->vocabulary_ = std::move(vocabulary);
    codec->lowercase_ = config.lowercase();
    codec->mark_ = config.mark();
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->TokenId(token); }));
    codec->FindSurfaces();
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  // Of bytes the way with the fewest tokens, of other marks the first way that can be cut.
  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::string lowered = lowercase_ ? LowercaseLatin(text) : std::string(text);
    const auto find = [this](absl::string_view surface) { return Find(surface); };
    std::vector<int32_t> best;
    const std::vector<std::string> ways = WaysToWrite(lowered);
    for (const std::string& written : ways) {
      std::vector<int32_t> ids = CutText(written, longest_, find);
      const bool is_shorter = mark_ == v1::SUBWORD_MARK_BYTES && ids.size() < best.size();
      if (best.empty() || (!ids.empty() && is_shorter)) {
        best = std::move(ids);
      }
    }
    return best.empty() ? WithUnknown(ways[0]) : WithEnds(best);
  }

  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id)) {
      return "";
    }
    std::string bytes =
        id >= 0 && id < size() ? surfaces_[static_cast<size_t>(id)] : absl::StrCat("<", id, ">");
    bytes.erase(0, is_first && SpaceIsFirst(mark_) && absl::StartsWith(bytes, " ") ? 1 : 0);
    return bytes;
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string bytes;
    for (const int32_t id : ids) {
      bytes += Written(id, /*is_first=*/false);
    }
    absl::string_view written = bytes;
    SpaceIsFirst(mark_) ? absl::ConsumePrefix(&written, " ") : absl::ConsumeSuffix(&written, " ");
    return ValidUtf8(written);
  }

  int32_t TokenId(const std::string& token) const override { return vocabulary_.Find(token); }
  std::string TokenText(int32_t id) const override {
    return id >= 0 && id < size() ? vocabulary_.token(id) : absl::StrCat("<", id, ">");
  }
  int size() const override { return vocabulary_.size(); }

 private:
  MarkedCodec() = default;

  void FindSurfaces() {
    const absl::flat_hash_map<char32_t, char> table =
        IsOfBytes(mark_) ? ByteTable(mark_) : absl::flat_hash_map<char32_t, char>();
    for (int32_t id = 0; id < size(); ++id) {
      surfaces_.push_back(Surface(vocabulary_.token(id), mark_, table));
      if (!IsSilent(id) && !surfaces_.back().empty()) {
        ids_[surfaces_.back()] = id;
        longest_ = std::max(longest_, surfaces_.back().size());
      }
    }
  }

  // The surfaces that Decode writes as this text, the likeliest first. Bytes have all of its white
  // space, and GPT-2's texts begin without one unless no token does; where a text begins with one,
  // another stands before it, which Decode leaves out.
  std::vector<std::string> WaysToWrite(const std::string& text) const {
    if (mark_ != v1::SUBWORD_MARK_BYTES) {
      return {WithSpace(text), text};
    }
    return absl::StartsWith(text, " ") ? std::vector<std::string>{absl::StrCat(" ", text)}
                                       : std::vector<std::string>{text, absl::StrCat(" ", text)};
  }

  // Words with one space between, and one where the mark has it.
  std::string WithSpace(absl::string_view text) const {
    std::string words;
    for (const absl::string_view word :
         absl::StrSplit(text, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty())) {
      const bool bare =
          !IsOfBytes(mark_) && (SpaceIsFirst(mark_) ? BeginsUnspaced(word) : EndsUnspaced(word));
      const char* const space = bare ? "" : " ";
      absl::StrAppend(&words, SpaceIsFirst(mark_) ? space : "", word,
                      SpaceIsFirst(mark_) ? "" : space);
    }
    return words;
  }

  // The id of the token with this surface; -1: no token has it.
  int32_t Find(absl::string_view surface) const {
    const auto found = ids_.find(surface);
    return found == ids_.end() ? -1 : found->second;
  }

  EncodedText WithEnds(const std::vector<int32_t>& ids) const {
    EncodedText encoded = Begin();
    for (const int32_t id : ids) {
      if (id == unknown_id_) {
        encoded.unknown_positions.push_back(static_cast<int32_t>(encoded.ids.size()));
      }
      encoded.ids.push_back(id);
    }
    return End(std::move(encoded));
  }

  // The longest surfaces first; without a match, a character is unknown.
  absl::StatusOr<EncodedText> WithUnknown(absl::string_view text) const {
    if (text.empty()) {
      return status::InvalidField("text", "holds nothing but white space");
    }
    EncodedText encoded = Begin();
    const auto find = [this](absl::string_view surface) { return Find(surface); };
    size_t position = 0;
    while (!text.empty()) {
      size_t taken = 0;
      const int32_t id = LongestToken(text, longest_, find, taken);
      if (id >= 0 && id != unknown_id_) {
        encoded.ids.push_back(id);
      } else if (text[0] == ' ') {
        taken = 1;  // a space alone is no loss
      } else {
        taken = static_cast<size_t>(std::max(Utf8Length(text), 1));
        BW_RETURN_IF_ERROR(AppendUnknown(text.substr(0, taken), "piece", position, encoded));
      }
      text.remove_prefix(taken);
      ++position;
    }
    return End(std::move(encoded));
  }

  v1::SubwordMark mark_ = v1::SUBWORD_MARK_WORD_BEGIN;
  bool lowercase_ = false;
  Vocabulary vocabulary_;
  std::vector<std::string> surfaces_;              // by id
  absl::flat_hash_map<std::string, int32_t> ids_;  // by surface; of several the last
  size_t longest_ = 0;                             // surface, in bytes
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateMarkedCodec(const v1::TextConfig& config,
                                                             Vocabulary vocabulary) {
  return MarkedCodec::Create(config, std::move(vocabulary));
}

}  // namespace beamwright::bundle
