// The text forms that look tokens up in a table: characters, white space, pieces, and plain ids.
// Create reads the vocabulary; if its tokens have joiners or other marks, a codec for these takes
// over.
//
// 1. Encode splits the text in the usual way of its form (Split): characters, words between white
//    space, or pieces with '▁' in the place of spaces, the longest piece first.
// 2. If a part is no token, CutOtherwise looks for the fewest tokens that make up the whole text:
//    answers of a model may be cut in a way that Split does not find.
// 3. What is left becomes the unknown token, or an error with the part's text and position
//    (Joined).
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/text_codec.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/base/vocabulary.h"

namespace beamwright::bundle {
namespace {

// ASCII white space; other spaces are characters like any other.
constexpr char kWhiteSpace[] = " \t\n\v\f\r";
// Whether pieces are written otherwise than by '▁' alone: by another mark, or as bytes.
bool HasOtherMarks(const v1::TextConfig& config, const Vocabulary& vocabulary) {
  return config.form() == v1::TEXT_FORM_PIECES &&
         (config.mark() != v1::SUBWORD_MARK_WORD_BEGIN ||
          (vocabulary.Find("<0x00>") >= 0 && vocabulary.Find("<0xFF>") >= 0));
}

class TableCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content,
                                                           Vocabulary::Lines lines) {
    auto codec = absl::WrapUnique(new TableCodec);
    codec->form_ = config.form();
    codec->lowercase_ = config.lowercase();
    codec->size_ = config.size();
    codec->has_controls_ = config.form() == v1::TEXT_FORM_PIECES &&
                           lines == Vocabulary::Lines::kColumns && !config.vocabulary().empty();
    if (!config.vocabulary().empty()) {
      auto vocabulary = Vocabulary::Parse(content, lines);
      if (!vocabulary.ok()) {
        return Annotate(vocabulary.status(),
                        absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
      }
      if (HasJoiners(config, *vocabulary)) {
        return CreateJoinerCodec(config, *std::move(vocabulary));
      }
      if (HasOtherMarks(config, *vocabulary)) {
        return CreateMarkedCodec(config, *std::move(vocabulary));
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
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::string lowered = lowercase_ ? LowercaseLatin(text) : std::string(text);
    const std::string marked = form_ == v1::TEXT_FORM_PIECES ? MarkWords(lowered) : lowered;
    const absl::StatusOr<std::vector<absl::string_view>> pieces = Split(marked);
    if (pieces.ok() && std::all_of(pieces->begin(), pieces->end(), [this](absl::string_view piece) {
          return FindSpoken(piece) >= 0;
        })) {
      return Joined(*pieces);
    }
    if (std::optional<EncodedText> cut = CutOtherwise(lowered); cut.has_value()) {
      return *std::move(cut);
    }
    BW_RETURN_IF_ERROR(pieces.status());
    return Joined(*pieces);
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string text;
    bool first = true;
    const bool joined = form_ == v1::TEXT_FORM_CHARACTERS || form_ == v1::TEXT_FORM_PIECES;
    for (const int32_t id : ids) {
      if (IsSilent(id) || IsControl(id)) {
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

  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id) || IsControl(id)) {
      return "";
    }
    const bool is_known = id >= 0 && (size_ == 0 || id < size_);
    std::string text = !is_known                 ? absl::StrCat("<", id, ">")
                       : vocabulary_.has_value() ? vocabulary_->token(id)
                                                 : absl::StrCat(id);
    if (form_ == v1::TEXT_FORM_PIECES) {
      text = absl::StrReplaceAll(text, {{kWordBegin, " "}});
      text.erase(0, is_first && absl::StartsWith(text, " ") ? 1 : 0);
    } else if (form_ != v1::TEXT_FORM_CHARACTERS && !is_first) {
      text.insert(0, 1, ' ');
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

  // Columns such as Canary's <|pnc|> steer the model.
  bool IsControl(int32_t id) const {
    return has_controls_ && id >= 0 && id < size_ &&
           absl::StartsWith(vocabulary_->token(id), "<|") &&
           absl::EndsWith(vocabulary_->token(id), "|>");
  }

  // Tokens that no text could ever be read as, or that would not survive being written.
  absl::Status CheckTokens(const v1::TextConfig& config) {
    for (int32_t id = 0; vocabulary_.has_value() && id < size_; ++id) {
      const absl::string_view token = vocabulary_->token(id);
      longest_token_ = std::max(longest_token_, token.size());
      if (absl::StartsWith(token, kWordBegin)) {
        marks_unspaced_ |= BeginsUnspaced(token.substr(kWordBegin.size()));
      }
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
      if (token.empty() && form_ == v1::TEXT_FORM_WHITESPACE) {
        return Invalid("vocabulary: '", config.vocabulary(), "': line ", id + 1,
                       " is empty; TEXT_FORM_WHITESPACE has a space between tokens, which would "
                       "stand alone there");
      }
    }
    return absl::OkStatus();
  }

  // The id of a token that text may spell; -1: unknown or special.
  int32_t FindSpoken(absl::string_view piece) const {
    const int32_t id = vocabulary_->Find(piece);
    return id >= 0 && !IsSpecial(id) ? id : -1;
  }

  // Pieces as ids; for what the vocabulary lacks the unknown token, or an error.
  absl::StatusOr<EncodedText> Joined(const std::vector<absl::string_view>& pieces) const {
    const absl::string_view unit = form_ == v1::TEXT_FORM_CHARACTERS ? "character"
                                   : form_ == v1::TEXT_FORM_PIECES   ? "piece"
                                                                     : "word";
    EncodedText encoded = Begin();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const int32_t id = FindSpoken(pieces[i]);
      if (id >= 0) {
        encoded.ids.push_back(id);
      } else if (unknown_id_ >= 0 && pieces[i] == vocabulary_->token(unknown_id_)) {
        AppendSpelledUnknown(encoded);
      } else {
        BW_RETURN_IF_ERROR(AppendUnknown(pieces[i], unit, i, encoded));
      }
    }
    return End(std::move(encoded));
  }

  void AppendSpelledUnknown(EncodedText& encoded) const {
    encoded.unknown_positions.push_back(static_cast<int32_t>(encoded.ids.size()));
    encoded.ids.push_back(unknown_id_);
  }

  // Text that the usual way finds no tokens for, but that tokens make up: as answers of a model
  // whose tokens are not cut that way are written.
  std::optional<EncodedText> CutOtherwise(const std::string& text) const {
    if (form_ == v1::TEXT_FORM_CHARACTERS) {
      return Cut(text);
    }
    if (form_ != v1::TEXT_FORM_PIECES) {
      return std::nullopt;
    }
    // Decode writes a space for each mark, and leaves out one at the start.
    const std::string marked = absl::StrReplaceAll(text, {{" ", kWordBegin}});
    std::optional<EncodedText> cut = Cut(absl::StrCat(kWordBegin, marked));
    return cut.has_value() ? std::move(cut) : Cut(marked);
  }

  // The fewest tokens that make up `text`; nothing if none do.
  std::optional<EncodedText> Cut(absl::string_view text) const {
    const std::vector<int32_t> ids =
        CutIntoFewest(text, longest_token_, [this](absl::string_view piece) {
          const int32_t id = vocabulary_->Find(piece);
          return IsSilent(id) ? -1 : id;
        });
    if (ids.empty()) {
      return std::nullopt;
    }
    EncodedText encoded = Begin();
    for (const int32_t id : ids) {
      if (id == unknown_id_) {
        AppendSpelledUnknown(encoded);
      } else {
        encoded.ids.push_back(id);
      }
    }
    return End(std::move(encoded));
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

  // The mark in the place of each gap between words, and before the first. Words of scripts without
  // spaces get no mark where no piece has it before one of their characters: next to
  // the pieces of another language such vocabularies have characters, which follow each other.
  std::string MarkWords(absl::string_view text) const {
    std::string marked;
    for (const absl::string_view word :
         absl::StrSplit(text, absl::ByAnyChar(kWhiteSpace), absl::SkipEmpty())) {
      const bool bare = !marks_unspaced_ && BeginsUnspaced(word) && HasCharacter(word);
      absl::StrAppend(&marked, bare ? "" : kWordBegin, word);
    }
    return marked;
  }

  // Whether the first character of `word` is a token.
  bool HasCharacter(absl::string_view word) const {
    const int size = Utf8Length(word);
    return size > 0 && FindSpoken(word.substr(0, static_cast<size_t>(size))) >= 0;
  }

  // The longest piece first, from the left; without a match, a character. The model that cut
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
        if (size > longest_token_) {
          break;
        }
        const absl::string_view longer(characters[at].data(), size);
        if (FindSpoken(longer) >= 0) {
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
  bool has_controls_ = false;
  int size_ = 0;
  size_t longest_token_ = 0;     // in bytes
  bool marks_unspaced_ = false;  // whether a piece has the mark before such a character
  std::optional<Vocabulary> vocabulary_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateTableCodec(const v1::TextConfig& config,
                                                            const std::string& vocabulary,
                                                            Vocabulary::Lines lines) {
  return TableCodec::Create(config, vocabulary, lines);
}

}  // namespace beamwright::bundle
