// The text forms that look tokens up in a table: characters, white space, and plain ids.
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/base/vocabulary.h"
#include "server/model/codec_base.h"
#include "server/model/utf8.h"
#include "server/status/fault.h"

namespace beamwright::model {
namespace {

// ASCII white space; other spaces are characters like any other.
constexpr char kWhiteSpace[] = " \t\n\v\f\r";

class TableCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content) {
    auto codec = absl::WrapUnique(new TableCodec);
    codec->form_ = config.form();
    codec->lowercase_ = config.lowercase();
    codec->size_ = config.size();
    if (!config.vocabulary().empty()) {
      auto vocabulary = Vocabulary::Parse(content);
      if (!vocabulary.ok()) {
        return Annotate(vocabulary.status(),
                        absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
      }
      codec->size_ = vocabulary->size();
      codec->vocabulary_ = *std::move(vocabulary);
    }
    BW_RETURN_IF_ERROR(codec->CheckTokens(config));
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->TokenId(token); }));
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    if (form_ == v1::TEXT_FORM_IDS) {
      return status::InvalidField("text", "the model has no text form on this side; send ids");
    }
    if (text.empty()) {
      return status::InvalidField("text", "is empty");
    }
    const absl::Status valid = CheckUtf8(text);
    if (!valid.ok()) {
      return status::AtField(valid, "text");
    }
    const std::string lowered = lowercase_ ? LowercaseLatin(text) : std::string(text);
    const bool characters = form_ == v1::TEXT_FORM_CHARACTERS;
    const absl::string_view unit = characters ? "character" : "word";
    BW_ASSIGN_OR_RETURN(const std::vector<absl::string_view> pieces, Split(lowered));
    EncodedText encoded = Begin();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const int32_t id = vocabulary_->Find(pieces[i]);
      if (id >= 0 && !IsSpecial(id)) {
        encoded.ids.push_back(id);
      } else {
        BW_RETURN_IF_ERROR(AppendUnknown(pieces[i], unit, i, encoded));
      }
    }
    return End(std::move(encoded));
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string text;
    bool first = true;
    for (const int32_t id : ids) {
      if (IsSilent(id)) {
        continue;
      }
      if (!first && form_ != v1::TEXT_FORM_CHARACTERS) {
        text.push_back(' ');
      }
      first = false;
      if (id < 0 || (size_ > 0 && id >= size_)) {
        absl::StrAppend(&text, "<", id, ">");
      } else if (vocabulary_.has_value()) {
        absl::StrAppend(&text, vocabulary_->token(id));
      } else {
        absl::StrAppend(&text, id);
      }
    }
    return text;
  }

  int32_t TokenId(const std::string& token) const override {
    if (vocabulary_.has_value()) {
      return vocabulary_->Find(token);
    }
    int32_t id = -1;
    // Only the one way of writing a number, so that an id has one name.
    const bool number = absl::SimpleAtoi(token, &id) && absl::StrCat(id) == token;
    return number && id >= 0 && (size_ == 0 || id < size_) ? id : -1;
  }

  std::string TokenText(int32_t id) const override {
    if (vocabulary_.has_value() && id >= 0 && id < size_) {
      return vocabulary_->token(id);
    }
    return vocabulary_.has_value() ? absl::StrCat("<", id, ">") : absl::StrCat(id);
  }

  int size() const override { return size_; }

 private:
  TableCodec() = default;

  // Tokens that no text could ever be read as, or that would not survive being written.
  absl::Status CheckTokens(const v1::TextConfig& config) const {
    if (form_ != v1::TEXT_FORM_WHITESPACE) {
      return absl::OkStatus();
    }
    for (int32_t id = 0; id < size_; ++id) {
      const std::string& token = vocabulary_->token(id);
      if (token.find_first_of(kWhiteSpace) != std::string::npos) {
        return Invalid("vocabulary: '", config.vocabulary(), "': line ", id + 1, ": '", token,
                       "' contains white space, which separates tokens");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<absl::string_view>> Split(absl::string_view text) const {
    std::vector<absl::string_view> pieces;
    if (form_ == v1::TEXT_FORM_CHARACTERS) {
      BW_RETURN_IF_ERROR(SplitCharacters(text, pieces));
      return pieces;
    }
    pieces = absl::StrSplit(text, absl::ByAnyChar(kWhiteSpace), absl::SkipEmpty());
    if (pieces.empty()) {
      return status::InvalidField("text", "holds nothing but white space");
    }
    return pieces;
  }

  v1::TextForm form_ = v1::TEXT_FORM_IDS;
  bool lowercase_ = false;
  int size_ = 0;
  std::optional<Vocabulary> vocabulary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateTableCodec(const v1::TextConfig& config,
                                                            const std::string& vocabulary) {
  return TableCodec::Create(config, vocabulary);
}

}  // namespace beamwright::model
