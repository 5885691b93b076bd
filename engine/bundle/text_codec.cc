// TextCodec turns texts into ids and back. Create makes the codec for a configuration:
// SentencePiece, a tokenizer's file, or a table of tokens (words, characters, pieces). What they
// share is here: tables of bytes and cutting, then CodecBase: the special tokens, checks of texts,
// and unknown pieces.
//
// A text cannot spell special tokens: a piece that is the text of one counts as unknown, since a
// request could otherwise end its source early. Begin and End put the special tokens around a text
// that is encoded as a whole; EncodePart leaves them out.
#include "engine/bundle/text_codec.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/tokenizer_file.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {

// Parts that text codecs share: GPT-2's printable characters for bytes, pieces that stand for a
// byte (<0xE6>), and the cutting of a text into tokens of a vocabulary. CutText takes the longest
// token each time; where that ends in a place from which no token goes on, CutIntoFewest finds the
// fewest tokens that make up the text, by dynamic programming from the end. Its look-ups are
// bounded, since texts come from callers.

char32_t GptCharacter(int byte) {
  const auto is_printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  if (is_printable(byte)) {
    return static_cast<char32_t>(byte);
  }
  char32_t next = 0x100;
  for (int b = 0; b < byte; ++b) {
    next += is_printable(b) ? 0 : 1;
  }
  return next;
}

absl::flat_hash_map<char32_t, char> GptBytes() {
  absl::flat_hash_map<char32_t, char> table;
  for (int byte = 0; byte < 256; ++byte) {
    table[GptCharacter(byte)] = static_cast<char>(byte);
  }
  return table;
}

std::string BytesOfPiece(absl::string_view token,
                         const absl::flat_hash_map<char32_t, char>& table) {
  std::string bytes;
  for (absl::string_view rest = token; !rest.empty();) {
    char32_t character = 0;
    const int size = Utf8Length(rest, &character);
    const auto found = table.find(character);
    if (size == 0 || found == table.end()) {
      return std::string(token);
    }
    bytes.push_back(found->second);
    rest.remove_prefix(static_cast<size_t>(size));
  }
  return bytes;
}

int ByteOfPiece(absl::string_view piece) {
  uint32_t byte = 0;
  const bool is_byte = piece.size() == 6 && absl::StartsWith(piece, "<0x") && piece.back() == '>' &&
                       absl::SimpleHexAtoi(piece.substr(1, 4), &byte);
  return is_byte ? static_cast<int>(byte) : -1;
}

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(kFirst[more] | (code >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F)));
  }
}

int32_t LongestToken(absl::string_view text, size_t longest, TokenLookUp find, size_t& size) {
  for (size = std::min(longest, text.size()); size > 0; --size) {
    if (const int32_t id = find(text.substr(0, size)); id >= 0) {
      return id;
    }
  }
  return -1;
}

std::vector<int32_t> CutIntoFewest(absl::string_view text, size_t longest, TokenLookUp find) {
  constexpr size_t kMostLookUps = size_t{1} << 22;
  if (text.size() > kMostLookUps / std::max<size_t>(longest, 1)) {
    return {};
  }
  // By byte: how many tokens make up what begins there (-1: none do), and the first of them.
  struct Cut {
    int32_t count = -1;
    int32_t id = -1;
    size_t size = 0;
  };
  std::vector<Cut> cuts(text.size() + 1);
  cuts[text.size()].count = 0;
  for (size_t at = text.size(); at-- > 0;) {
    Cut& best = cuts[at];
    for (size_t size = 1; size <= std::min(longest, text.size() - at); ++size) {
      const int32_t rest = cuts[at + size].count;
      if (rest < 0 || (best.count >= 0 && rest + 1 > best.count)) {
        continue;
      }
      if (const int32_t id = find(text.substr(at, size)); id >= 0) {
        best = {rest + 1, id, size};
      }
    }
  }
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size() && cuts[at].count > 0; at += cuts[at].size) {
    ids.push_back(cuts[at].id);
  }
  return ids;
}

std::vector<int32_t> CutText(absl::string_view text, size_t longest, TokenLookUp find) {
  std::vector<int32_t> ids;
  for (absl::string_view rest = text; !rest.empty();) {
    size_t size = 0;
    const int32_t id = LongestToken(rest, longest, find, size);
    if (id < 0) {
      return CutIntoFewest(text, longest, find);
    }
    ids.push_back(id);
    rest.remove_prefix(size);
  }
  return ids;
}

namespace {

constexpr absl::string_view kIsSpecial =
    "a special token (begin, end or padding), for which no text stands; send its id";

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> TextCodec::Create(const v1::TextConfig& config,
                                                             const std::string& vocabulary,
                                                             Vocabulary::Lines lines) {
  if (config.size() < 0) {
    return Invalid("size: ", config.size(), " is negative");
  }
  if (config.size() > 0 && (config.form() != v1::TEXT_FORM_IDS || !config.vocabulary().empty())) {
    return Invalid(
        "size: is for TEXT_FORM_IDS without a vocabulary; a vocabulary has its own size");
  }
  if (config.mark() != v1::SUBWORD_MARK_WORD_BEGIN && config.form() != v1::TEXT_FORM_PIECES) {
    return Invalid("mark: ", v1::SubwordMark_Name(config.mark()), " is only for TEXT_FORM_PIECES");
  }
  if (config.lowercase() && config.form() == v1::TEXT_FORM_IDS) {
    return Invalid("lowercase: TEXT_FORM_IDS reads no text");
  }
  if (config.vocabulary().empty() && config.form() != v1::TEXT_FORM_IDS) {
    return Invalid("vocabulary: is not set; ", v1::TextForm_Name(config.form()), " needs a file");
  }
  if (config.form() == v1::TEXT_FORM_SENTENCEPIECE) {
    return CreateSentencePieceCodec(config, vocabulary);
  }
  if (config.form() == v1::TEXT_FORM_PIECES && IsTokenizerFile(vocabulary)) {
    return CreateTokenizerCodec(config, vocabulary);
  }
  return CreateTableCodec(config, vocabulary, lines);
}

absl::StatusOr<std::vector<int32_t>> TextCodec::EncodePart(absl::string_view text) const {
  BW_ASSIGN_OR_RETURN(EncodedText encoded, Encode(text));
  if (encoded.first_missing >= 0) {
    const int offset = begin_id_ >= 0 ? 1 : 0;
    return status::InvalidField("text", "token ", encoded.first_missing - offset, " of '",
                                absl::Utf8SafeCEscape(text), "' is ",
                                encoded.missing_is_special ? kIsSpecial : "not in the vocabulary");
  }
  std::vector<int32_t>& ids = encoded.ids;  // no text can spell begin or end
  if (begin_id_ >= 0) {
    ids.erase(ids.begin());
  }
  if (!end_ids_.empty()) {
    ids.pop_back();
  }
  return std::move(ids);
}

std::string TextCodec::DecodeBefore(absl::Span<const int32_t> ids, absl::string_view rest) const {
  std::string text = Decode(ids);
  const std::string tail = ValidUtf8(rest);
  // Decode may leave out a space at the end, and spaces at the beginning.
  absl::string_view before = text;
  if (!absl::ConsumeSuffix(&before, tail) &&
      !absl::ConsumeSuffix(&before, absl::StripSuffix(tail, " ")) &&
      absl::StripLeadingAsciiWhitespace(tail) == text) {
    before = "";
  }
  text.resize(before.size());
  return text;
}

absl::Status CodecBase::CheckFileCuts(const v1::TextConfig& config) {
  if (config.mark() != v1::SUBWORD_MARK_WORD_BEGIN || config.lowercase()) {
    return Invalid(config.lowercase() ? "lowercase" : "mark", ": '", config.vocabulary(),
                   "' itself says how text is cut");
  }
  return absl::OkStatus();
}

absl::Status CodecBase::CheckText(absl::string_view text) {
  if (text.empty()) {
    return status::InvalidField("text", "is empty");
  }
  return status::AtField(CheckUtf8(text), "text");
}

absl::Status CodecBase::FindSpecialTokens(const v1::TextConfig& config,
                                          const std::function<int32_t(const std::string&)>& find) {
  status::Faults faults;
  const auto look_up = [&](const std::string& field, const std::string& token) {
    const int32_t id = find(token);
    if (id < 0) {
      faults.Add(field, "'", absl::Utf8SafeCEscape(token), "' is not in the vocabulary");
    }
    return id;
  };
  if (!config.begin_token().empty()) {
    begin_id_ = look_up("begin_token", config.begin_token());
  }
  if (!config.pad_token().empty()) {
    pad_id_ = look_up("pad_token", config.pad_token());
  }
  if (!config.unknown_token().empty()) {
    unknown_id_ = look_up("unknown_token", config.unknown_token());
  }
  for (int i = 0; i < config.end_tokens_size(); ++i) {
    const std::string field = absl::StrCat("end_tokens[", i, "]");
    const int32_t id = look_up(field, config.end_tokens(i));
    if (id >= 0 && absl::c_linear_search(end_ids_, id)) {
      faults.Add(field, "'", config.end_tokens(i), "' is given twice");
    }
    end_ids_.push_back(id);
  }
  return status::OkOrInvalid(faults);
}

bool CodecBase::IsSilent(int32_t id) const {
  return id >= 0 && (id == begin_id_ || id == pad_id_ || absl::c_linear_search(end_ids_, id));
}

bool CodecBase::IsSpecial(int32_t id) const {
  return IsSilent(id) || (id >= 0 && id == unknown_id_);
}

EncodedText CodecBase::Begin() const {
  EncodedText text;
  if (begin_id_ >= 0) {
    text.ids.push_back(begin_id_);
  }
  return text;
}

EncodedText CodecBase::End(EncodedText text) const {
  if (!end_ids_.empty()) {
    text.ids.push_back(end_ids_.front());
  }
  return text;
}

absl::Status CodecBase::AppendUnknown(absl::string_view piece, absl::string_view unit,
                                      size_t position, EncodedText& text) const {
  const bool is_special = IsSilent(TokenId(std::string(piece)));
  if (unknown_id_ < 0) {
    constexpr size_t kShown = 80;
    char32_t c = 0;
    std::string code;
    if (static_cast<size_t>(Utf8Length(piece, &c)) == piece.size()) {
      code = absl::StrCat(" (U+", absl::Hex(static_cast<uint32_t>(c), absl::kZeroPad4), ")");
    }
    return status::InvalidField("text", unit, " ", position, ", '",
                                absl::Utf8SafeCEscape(piece.substr(0, kShown)), "'", code, ", is ",
                                is_special ? kIsSpecial
                                           : "not in the model's vocabulary, which has no unknown "
                                             "token");
  }
  const auto at = static_cast<int32_t>(text.ids.size());
  if (text.first_missing < 0) {
    text.first_missing = at;
    text.missing_is_special = is_special;
  }
  text.unknown_positions.push_back(at);
  text.ids.push_back(unknown_id_);
  return absl::OkStatus();
}

}  // namespace beamwright::bundle
