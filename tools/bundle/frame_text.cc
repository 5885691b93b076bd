// Says which column of the scores of a CTC model or transducer is which token, and how tokens
// become text. A graph has only a number of columns; the vocabulary may have fewer or more lines
// than that, and each toolkit has its own place for the blank.
//
//   columns = tokens of the vocabulary + (a blank without a line) + (durations) + (a space)
//
// 1. UseTokens reads a list of tokens. Empty lines at the end are tokens if columns are left for
//    them (KeepEmptyTail); symbols #0, #1 that icefall appends are dropped if columns are missing
//    (DropDisambiguation).
// 2. PlaceBlank: the column of the blank: as --blank says; a token with a usual name; for pictures
//    the column before the vocabulary; the column after it; wav2vec's <pad>.
// 3. UseDurations: columns after tokens and blank are durations, for transducers.
// 4. ChooseForm: pieces with a mark ("▁the"), characters joined, or words with spaces between.
// 5. UseSentencePiece and UseIds: a SentencePiece model, or no vocabulary; then only metadata
//    (vocab_size, the toolkit's name) can say where the blank is (FindBlankBySize).
//
// What remains open is an error that names the flag; a guess is explained in `reasons`.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/text_side.h"
#include "tools/bundle/token_file.h"

namespace beamwright::tools {
namespace {

constexpr absl::string_view kUsualBlanks[] = {"<blk>",   "<blank>",  "<BLANK>", "<BLK>",
                                              "[blank]", "[BLANK]",  "blank",   "<ctc_blank>",
                                              "<eps>",   "<epsilon>"};
constexpr char kInventedBlank[] = "<blank>";
// Names of the token that is written as a space.
constexpr absl::string_view kUsualSpaces[] = {"<space>", "<SPACE>", "<sp>",
                                              "<SP>",    "[space]", "[SPACE]"};

class FrameTextReader {
 public:
  FrameTextReader(const FrameColumns& columns, const FrameTextHints& hints,
                  std::vector<std::string>& reasons)
      : columns_(columns), hints_(hints), reasons_(reasons) {}

  absl::StatusOr<FrameText> Run() {
    if (IsSentencePiece(hints_.vocabulary)) {
      BW_RETURN_IF_ERROR(UseSentencePiece());
    } else if (hints_.vocabulary.empty()) {
      BW_RETURN_IF_ERROR(UseIds());
    } else {
      BW_RETURN_IF_ERROR(UseTokens());
    }
    return std::move(text_);
  }

 private:
  // A number of the metadata; -1: the files do not have it.
  int64_t Metadata(const std::string& key) const {
    const auto it = columns_.metadata.find(key);
    int64_t value = -1;
    return it != columns_.metadata.end() && absl::SimpleAtoi(it->second, &value) ? value : -1;
  }
  // NeMo counts tokens without blank, which comes last.
  bool IsNemo() const {
    const auto has = [&](const char* key, absl::string_view start) {
      const auto it = columns_.metadata.find(key);
      return it != columns_.metadata.end() && absl::StartsWith(it->second, start);
    };
    return has("model_author", "NeMo") || has("model_type", "EncDec");
  }

  // Takes `columns` columns after tokens and blank as durations.
  absl::Status UseDurations(int64_t columns) {
    if (columns == 0 && hints_.durations.empty()) {
      return absl::OkStatus();
    }
    if (!columns_.is_transducer) {
      return Invalid("the scores have ", columns_.columns, " columns, ", columns,
                     " more than tokens and blank; is it another model's vocabulary?");
    }
    if (!hints_.durations.empty() && static_cast<int64_t>(hints_.durations.size()) != columns) {
      return Invalid("--durations: ", hints_.durations.size(),
                     " are given, but behind tokens and "
                     "blank the scores have ",
                     columns, " columns");
    }
    text_.durations = hints_.durations;
    for (int i = 0; text_.durations.empty() && i < columns; ++i) {
      named_.push_back(i);
    }
    if (text_.durations.empty()) {
      text_.durations = std::move(named_);
      reasons_.push_back(absl::StrCat("durations ", absl::StrJoin(text_.durations, ", "),
                                      ": the scores have ", columns,
                                      " columns behind tokens and blank, and NeMo counts from 0; "
                                      "check this, or say --durations"));
    } else {
      reasons_.push_back(
          absl::StrCat("durations ", absl::StrJoin(text_.durations, ", "), ": as given"));
    }
    return absl::OkStatus();
  }

  void UseBlank(int64_t column, absl::string_view why) {
    text_.blank = static_cast<int32_t>(column);
    reasons_.push_back(absl::StrCat("blank is column ", column, ": ", why));
  }

  std::optional<int64_t> ToldColumn() const {
    int64_t column = -1;
    const bool is_number = absl::SimpleAtoi(hints_.blank, &column);
    return is_number && column >= 0 && column < columns_.columns ? std::make_optional(column)
                                                                 : std::nullopt;
  }

  // Without a list of tokens, metadata says how many there are.
  absl::Status UseIds() {
    const int64_t told = Metadata("vocab_size");
    const int64_t tokens = told < 0 ? -1 : told + (IsNemo() ? 1 : 0);
    if (tokens > columns_.columns) {
      return WrongSize(tokens);
    }
    BW_RETURN_IF_ERROR(UseDurations(tokens < 0 ? 0 : columns_.columns - tokens));
    const int64_t size = columns_.columns - static_cast<int64_t>(text_.durations.size());
    text_.config.set_size(static_cast<int32_t>(size));
    return FindBlankBySize(size, "there is no vocabulary");
  }

  absl::Status FindBlankBySize(int64_t size, absl::string_view why_not) {
    if (!hints_.blank.empty()) {
      const std::optional<int64_t> column = ToldColumn();
      if (!column.has_value()) {
        return Invalid("--blank: '", hints_.blank, "' is not a column, 0 to ", size - 1, "; ",
                       why_not);
      }
      UseBlank(*column, "as given");
    } else if (IsNemo()) {
      UseBlank(size - 1, "the last one, as NeMo has it; metadata says the model is NeMo's");
    } else if (columns_.metadata.count("context_size") > 0 ||
               columns_.metadata.count("model_author") > 0) {
      UseBlank(0, "as icefall has it; metadata says the model is icefall's");
    } else {
      return Invalid("it is unknown which column of the scores is blank, for ", why_not,
                     ": say it with --blank (0 of icefall, wav2vec and most OCR models, ", size - 1,
                     " of NeMo's)");
    }
    return absl::OkStatus();
  }

  absl::Status UseSentencePiece() {
    BW_ASSIGN_OR_RETURN(text_.content, ReadFile(hints_.vocabulary));
    text_.config.set_form(v1::TEXT_FORM_SENTENCEPIECE);
    text_.config.set_vocabulary("target.model");
    reasons_.push_back(absl::StrCat("target text is SentencePiece: '", hints_.vocabulary,
                                    "' ends with ",
                                    hints_.vocabulary.substr(hints_.vocabulary.rfind('.'))));
    const int64_t told = Metadata("vocab_size");
    const int64_t tokens = told < 0 ? columns_.columns : told + (IsNemo() ? 1 : 0);
    if (tokens > columns_.columns) {
      return WrongSize(tokens);
    }
    BW_RETURN_IF_ERROR(UseDurations(columns_.columns - tokens));
    return FindBlankBySize(tokens, "pieces of a model are not looked through for it");
  }

  absl::Status WrongSize(int64_t tokens) const {
    return Invalid("the scores have ", columns_.columns, " columns, fewer than the ", tokens,
                   " tokens; is it another model's vocabulary?");
  }

  absl::Status UseTokens() {
    BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(hints_.vocabulary));
    BW_ASSIGN_OR_RETURN(TokenFile file, ReadTokenFile(hints_.vocabulary, content, reasons_));
    tokens_ = std::move(file.tokens);
    KeepEmptyTail(file.empty_tail);
    DropDisambiguation();
    BW_RETURN_IF_ERROR(PlaceBlank());
    const int64_t size = static_cast<int64_t>(tokens_.size());
    const int64_t used = size + (text_.blank >= size ? 1 : 0);
    if (used > columns_.columns) {
      return WrongSize(used);
    }
    const int64_t told = Metadata("vocab_size");
    if (told >= 0 && used != told + (IsNemo() ? 1 : 0)) {
      return Invalid("the graphs' metadata says vocab_size ", told, ", but the vocabulary has ",
                     size, " tokens; is it another model's vocabulary?");
    }
    BW_RETURN_IF_ERROR(UseDurations(columns_.columns - used));
    return WriteVocabulary();
  }

  // Empty lines at the end are tokens where columns are left for them besides a blank, and, of
  // pictures, a space.
  void KeepEmptyTail(int64_t empty_tail) {
    const int64_t beside = columns_.is_picture ? 2 : 1;
    const int64_t spare = columns_.columns - static_cast<int64_t>(tokens_.size());
    const int64_t kept = std::min(empty_tail, spare - beside);
    if (kept > 0) {
      tokens_.resize(tokens_.size() + static_cast<size_t>(kept));
      reasons_.push_back(absl::StrCat(kept, " of the empty lines at the vocabulary's end ",
                                      kept == 1 ? "is a token" : "are tokens",
                                      " without a text: the scores have columns for them"));
    }
  }

  // icefall lists symbols of its decoding graphs behind the model's tokens.
  void DropDisambiguation() {
    size_t size = tokens_.size();
    while (static_cast<int64_t>(size) > columns_.columns &&
           absl::StartsWith(tokens_[size - 1], "#")) {
      --size;
    }
    if (size < tokens_.size()) {
      reasons_.push_back(absl::StrCat("'", tokens_[size],
                                      "' and what follows are left out: the scores "
                                      "have no column for them"));
      tokens_.resize(size);
    }
  }

  int64_t Find(absl::string_view token) const {
    const auto it = std::find(tokens_.begin(), tokens_.end(), token);
    return it == tokens_.end() ? -1 : it - tokens_.begin();
  }
  template <typename Tokens>
  int64_t FindFirst(const Tokens& usual) const {
    for (const absl::string_view token : usual) {
      if (const int64_t id = Find(token); id >= 0) {
        return id;
      }
    }
    return -1;
  }

  absl::Status PlaceBlank() {
    const int64_t size = static_cast<int64_t>(tokens_.size());
    const int64_t spare = columns_.columns - size;  // columns without a token
    if (!hints_.blank.empty()) {
      return PlaceTold(spare);
    }
    if (const int64_t usual = FindFirst(kUsualBlanks); usual >= 0) {
      UseBlank(usual,
               absl::StrCat("'", tokens_[static_cast<size_t>(usual)], "' is in the vocabulary"));
    } else if (columns_.is_picture && (spare == 1 || spare == 2)) {
      InsertFirst(absl::StrCat("of pictures; ", spare, spare == 1 ? " column has" : " columns have",
                               " no token; check this, or say --blank"));
      if (spare == 2) {
        tokens_.push_back(" ");
        reasons_.push_back(
            "the last column is a space, as PaddleOCR has it: no token is left for it; check this");
      }
    } else if (spare >= 1) {
      UseBlank(size, absl::StrCat("the one behind the vocabulary's ", size, " tokens",
                                  IsNemo() ? ", as NeMo has it" : "; check this, or say --blank"));
    } else if (const int64_t pad = FindFirst(kUsualPads); pad >= 0) {
      UseBlank(pad,
               absl::StrCat("'", tokens_[static_cast<size_t>(pad)],
                            "' is in the vocabulary, and no column is left besides its tokens, as "
                            "of wav2vec"));
    } else {
      return Invalid(
          "it is unknown which of the ", columns_.columns,
          " columns of the scores is blank: the vocabulary of ", size,
          " tokens has no usual name for it; say which with --blank TOKEN or --blank COLUMN");
    }
    return absl::OkStatus();
  }

  absl::Status PlaceTold(int64_t spare) {
    if (const int64_t id = Find(hints_.blank); id >= 0) {
      UseBlank(id, "as given");
      return absl::OkStatus();
    }
    const std::optional<int64_t> column = ToldColumn();
    if (!column.has_value()) {
      return Invalid("--blank: '", hints_.blank,
                     "' is neither in the vocabulary nor a column, 0 to ", columns_.columns - 1);
    }
    if (*column == 0 && spare >= 1 && Find(kInventedBlank) < 0) {
      InsertFirst("as given; the vocabulary's tokens follow it");
    } else if (*column <= static_cast<int64_t>(tokens_.size())) {
      UseBlank(*column, "as given");
    } else {
      return Invalid("--blank: column ", *column, " is neither one of the vocabulary's ",
                     tokens_.size(), " tokens nor the one behind them");
    }
    return absl::OkStatus();
  }

  void InsertFirst(absl::string_view why) {
    tokens_.insert(tokens_.begin(), kInventedBlank);
    UseBlank(0, absl::StrCat("the one before the vocabulary's tokens, ", why));
  }

  bool IsSpecial(const std::string& token, size_t id) const {
    return static_cast<int32_t>(id) == text_.blank ||
           (token.size() > 2 && ((token.front() == '<' && token.back() == '>') ||
                                 (token.front() == '[' && token.back() == ']')));
  }

  // Writes a space for tokens that are named as one, and for '|' where it separates words, as in
  // wav2vec's vocabularies.
  void WriteSpaces() {
    bool has_space = Find(" ") >= 0;
    for (const absl::string_view name : kUsualSpaces) {
      if (const int64_t id = Find(name); id >= 0) {
        tokens_[static_cast<size_t>(id)].assign(1, ' ');  // g++ 12 warns of an assigned literal
        reasons_.push_back(absl::StrCat("token '", name, "' is written as a space"));
        has_space = true;
      }
    }
    const bool like_wav2vec =
        !columns_.is_picture && (FindFirst(kUsualPads) >= 0 || FindFirst(kUsualBegins) >= 0 ||
                                 Find("-") == 0 || Find("E") == Find("|") + 1);
    if (const int64_t bar = Find("|"); bar >= 0 && !has_space && like_wav2vec) {
      tokens_[static_cast<size_t>(bar)].assign(1, ' ');
      reasons_.push_back("token '|' separates words: it is written as a space");
    }
  }

  absl::Status ChooseForm() {
    // Dictionaries of pictures may have marks as characters like any other.
    const bool may_be_marked = !(columns_.is_picture && Find(" ") >= 0);
    if (const auto mark =
            may_be_marked ? FindSubwordMark("target", tokens_, reasons_) : std::nullopt;
        mark.has_value()) {
      text_.config.set_form(v1::TEXT_FORM_PIECES);
      text_.config.set_mark(*mark);
      return absl::OkStatus();
    }
    bool characters = true;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const std::string& token = tokens_[id];
      characters =
          characters && (IsSpecial(token, id) || token.empty() || CountCharacters(token) == 1);
    }
    if (characters) {
      WriteSpaces();
    }
    const bool joined = characters || columns_.is_picture || Find(" ") >= 0;
    if (const int64_t empty = Find(""); !joined && empty >= 0) {
      return Invalid("vocabulary '", hints_.vocabulary, "': token ", empty,
                     " (from 0) is empty; only tokens that are joined without spaces may be");
    }
    text_.config.set_form(joined ? v1::TEXT_FORM_CHARACTERS : v1::TEXT_FORM_WHITESPACE);
    reasons_.push_back(
        characters ? "target text is joined from characters: every token is one"
        : joined   ? absl::StrCat(
                         "target text is joined from tokens without spaces between: ",
                       columns_.is_picture ? "so pictures are read" : "one of them is the space")
                 : "target text is tokens with spaces between: they are longer than a character, "
                   "and none begins with '▁'");
    return absl::OkStatus();
  }

  // Columns may share a text. Answers lose nothing by it; the reasons say how a request's text is
  // read then.
  void NoteSharedTexts() {
    std::map<std::string, int> count;
    for (const std::string& token : tokens_) {
      ++count[token];
    }
    for (const auto& [token, columns] : count) {
      if (columns > 1 && !token.empty()) {
        reasons_.push_back(
            absl::StrCat(columns, " columns are written as '", token,
                         "': text that a request sends is read as the last of them"));
      }
    }
    if (const auto empty = count.find(""); empty != count.end()) {
      reasons_.push_back(absl::StrCat(empty->second,
                                      empty->second == 1 ? " column has" : " columns have",
                                      " no text: nothing is written for it"));
    }
  }

  absl::Status WriteVocabulary() {
    BW_RETURN_IF_ERROR(ChooseForm());
    NoteSharedTexts();
    text_.config.set_vocabulary("target.vocab");
    if (const int64_t unknown = FindFirst(kUsualUnknowns); unknown >= 0) {
      text_.config.set_unknown_token(tokens_[static_cast<size_t>(unknown)]);
    }
    for (const std::string& token : tokens_) {
      absl::StrAppend(&text_.content, token, "\n");
    }
    return absl::OkStatus();
  }

  const FrameColumns& columns_;
  const FrameTextHints& hints_;
  std::vector<std::string>& reasons_;
  std::vector<int> named_;
  std::vector<std::string> tokens_;
  FrameText text_;
};

}  // namespace

absl::StatusOr<FrameText> ReadFrameText(const FrameColumns& columns, const FrameTextHints& hints,
                                        std::vector<std::string>& reasons) {
  return FrameTextReader(columns, hints, reasons).Run();
}

}  // namespace beamwright::tools
