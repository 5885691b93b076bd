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
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "engine/bundle/text_codec.h"
#include "engine/bundle/tokenizer_file.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/base/vocabulary.h"
#include "tools/bundle/subword_mark.h"
#include "tools/bundle/usual_tokens.h"

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

// Reads a file that says how text is cut: only the special tokens are guessed.
absl::StatusOr<TextSide> ReadTokenizer(const std::string& side, const std::string& path,
                                       const std::string& content, const SpecialTokens& special,
                                       std::vector<std::string>& reasons) {
  TextSide text;
  v1::TextConfig& config = text.config;
  config.set_form(v1::TEXT_FORM_PIECES);
  config.set_vocabulary(absl::StrCat(side, absl::EndsWith(path, ".json") ? ".json" : ".vocab"));
  const auto codec = bundle::TextCodec::Create(config, content);
  if (!codec.ok()) {
    return Annotate(codec.status(), absl::StrCat(side, " vocabulary '", path, "'"));
  }
  text.size = (*codec)->size();
  std::set<std::string> known;
  for (int32_t id = 0; id < (*codec)->size(); ++id) {
    known.insert((*codec)->TokenText(id));
  }
  BW_RETURN_IF_ERROR(CheckGiven(side, special, known));
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

}  // namespace

absl::StatusOr<TextSide> ReadTextSide(const std::string& side, const std::string& path,
                                      const std::string& content, const SpecialTokens& special,
                                      std::vector<std::string>& reasons, Vocabulary::Lines lines) {
  TextSide text;
  v1::TextConfig& config = text.config;
  const bool is_target = side == "target";
  const bool is_spm = absl::EndsWith(path, ".spm");
  if (is_spm || absl::EndsWith(path, ".model")) {
    config.set_form(v1::TEXT_FORM_SENTENCEPIECE);
    config.set_vocabulary(absl::StrCat(side, ".model"));
    reasons.push_back(absl::StrCat(side, " text is SentencePiece: '", path, "' ends with ",
                                   is_spm ? ".spm" : ".model"));
    if (is_target) {
      config.set_begin_token(special.begin.empty() ? "<s>" : special.begin);
      SetEnds(special.ends.empty() ? std::vector<std::string>{"</s>"} : special.ends, config);
      reasons.push_back(absl::StrCat(
          "target begins with '", config.begin_token(), "' and ends with '", config.end_tokens(0),
          "': ", special.begin.empty() ? "SentencePiece's usual pieces; check this" : "as given"));
    } else {
      config.set_begin_token(special.begin);
      SetEnds(special.ends, config);
    }
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
        return Invalid(side, " vocabulary '", path, "': '", absl::CEscape(token),
                       "' contains white space, which separates tokens");
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

}  // namespace beamwright::tools
