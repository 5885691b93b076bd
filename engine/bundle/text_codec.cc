// TextCodec turns texts into ids and back. Create makes the codec for a configuration:
// SentencePiece, a tokenizer's file, or a table of tokens (words, characters, pieces). What they
// share is here, in CodecBase: the special tokens, checks of texts, and unknown pieces.
//
// A text cannot spell special tokens: a piece that is the text of one counts as unknown, since a
// request could otherwise end its source early. Begin and End put the special tokens around a text
// that is encoded as a whole; EncodePart leaves them out.
#include "engine/bundle/text_codec.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/tokenizer_file.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
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
