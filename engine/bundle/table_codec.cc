// The text forms that look tokens up in a table: characters, white space, pieces, and plain ids.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/utf8.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/vocabulary.h"

namespace beamwright::bundle {
namespace {

// ASCII white space; other spaces are characters like any other.
constexpr char kWhiteSpace[] = " \t\n\v\f\r";
constexpr absl::string_view kWordBegin = "\xE2\x96\x81";  // U+2581

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
    const std::string marked = form_ == v1::TEXT_FORM_PIECES ? MarkWords(lowered) : lowered;
    const absl::string_view unit = form_ == v1::TEXT_FORM_CHARACTERS ? "character"
                                   : form_ == v1::TEXT_FORM_PIECES   ? "piece"
                                                                     : "word";
    BW_ASSIGN_OR_RETURN(const std::vector<absl::string_view> pieces, Split(marked));
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
    const bool joined = form_ == v1::TEXT_FORM_CHARACTERS || form_ == v1::TEXT_FORM_PIECES;
    for (const int32_t id : ids) {
      if (IsSilent(id)) {
        continue;
      }
      if (!first && !joined) {
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
    if (form_ == v1::TEXT_FORM_PIECES) {
      text = absl::StrReplaceAll(text, {{kWordBegin, " "}});
      text.erase(0, text.empty() || text.front() != ' ' ? 0 : 1);
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
  absl::Status CheckTokens(const v1::TextConfig& config) {
    for (int32_t id = 0; form_ == v1::TEXT_FORM_PIECES && id < size_; ++id) {
      longest_piece_ = std::max(longest_piece_, vocabulary_->token(id).size());
    }
    if (form_ != v1::TEXT_FORM_WHITESPACE && form_ != v1::TEXT_FORM_PIECES) {
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
    if (form_ == v1::TEXT_FORM_PIECES) {
      return SplitPieces(text);
    }
    pieces = absl::StrSplit(text, absl::ByAnyChar(kWhiteSpace), absl::SkipEmpty());
    if (pieces.empty()) {
      return status::InvalidField("text", "holds nothing but white space");
    }
    return pieces;
  }

  // The mark in the place of each gap between words, and before the first.
  static std::string MarkWords(absl::string_view text) {
    std::string marked;
    for (const absl::string_view word :
         absl::StrSplit(text, absl::ByAnyChar(kWhiteSpace), absl::SkipEmpty())) {
      absl::StrAppend(&marked, kWordBegin, word);
    }
    return marked;
  }

  // The longest piece first, from the left; where there is none, a character. The model that cut
  // the training texts may have cut them otherwise.
  absl::StatusOr<std::vector<absl::string_view>> SplitPieces(absl::string_view text) const {
    if (text.empty()) {
      return status::InvalidField("text", "holds nothing but white space");
    }
    std::vector<absl::string_view> characters;
    BW_RETURN_IF_ERROR(SplitCharacters(text, characters));
    std::vector<absl::string_view> pieces;
    for (size_t at = 0; at < characters.size();) {
      // Characters lie side by side, so a piece is a longer view of its first one.
      absl::string_view piece = characters[at];
      size_t taken = 1;
      for (size_t count = 1, size = 0; at + count <= characters.size(); ++count) {
        size += characters[at + count - 1].size();
        if (size > longest_piece_) {
          break;
        }
        const absl::string_view longer(characters[at].data(), size);
        if (const int32_t id = vocabulary_->Find(longer); id >= 0 && !IsSpecial(id)) {
          piece = longer;
          taken = count;
        }
      }
      pieces.push_back(piece);
      at += taken;
    }
    return pieces;
  }

  v1::TextForm form_ = v1::TEXT_FORM_IDS;
  bool lowercase_ = false;
  int size_ = 0;
  size_t longest_piece_ = 0;  // in bytes, of TEXT_FORM_PIECES
  std::optional<Vocabulary> vocabulary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateTableCodec(const v1::TextConfig& config,
                                                            const std::string& vocabulary) {
  return TableCodec::Create(config, vocabulary);
}

}  // namespace beamwright::bundle
