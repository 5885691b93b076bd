// Token lists as toolkits write them: one token a line, the names of special tokens, and how tokens
// say where words begin and end.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_FILE_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"

namespace beamwright::tools {

// Names that vocabularies give their special tokens.

inline constexpr absl::string_view kUsualBegins[] = {"<s>",   "<bos>", "<sos>", "<start>", "<go>",
                                                     "[BOS]", "[SOS]", "BOS",   "SOS"};
inline constexpr absl::string_view kUsualEnds[] = {"</s>", "<eos>", "<end>", "[EOS]", "EOS"};
// Of language models.
inline constexpr absl::string_view kUsualBeginsOfTexts[] = {"<|begin_of_text|>", "<s>", "<bos>"};
inline constexpr absl::string_view kUsualEndsOfTexts[] = {"<|endoftext|>", "<|end_of_text|>",
                                                          "</s>", "<eos>"};
inline constexpr absl::string_view kUsualPads[] = {"<pad>", "<PAD>", "[PAD]", "<blank>"};
inline constexpr absl::string_view kUsualUnknowns[] = {"<unk>", "<UNK>", "[UNK]", "<unknown>"};

// How the tokens of a list say where words begin and end.

// Whether a token has the form of a special one: "<pad>", "[PAD]".
bool LooksSpecial(absl::string_view token);

// Nothing if the tokens bear no mark that is known. `reasons` gets a line that says which, by which
// tokens.
std::optional<v1::SubwordMark> FindSubwordMark(const std::string& side,
                                               const std::vector<std::string>& tokens,
                                               std::vector<std::string>& reasons);

// The token lists that toolkits write for CTC models and transducers, as the vocabulary of a
// bundle: one token a line, the line its id.

struct TokenFile {
  std::vector<std::string> tokens;  // by id
  // Empty lines at the end of a file of one token a line: tokens without a text, or no tokens; only
  // the number of the scores' columns can say.
  int64_t empty_tail = 0;
  bool is_json = false;
};

// Tokens of a file in one of these forms, recognised by its content:
// - "TOKEN ID" a line, in any order (tokens.txt of icefall, sherpa-onnx, NeMo scripts, WeNet); a
//   line with nothing but an id is the space;
// - a JSON object of ids by token (vocab.json of Hugging Face);
// - one token a line (dictionaries of OCR models); an empty line is a token without a text.
// A byte order mark and carriage returns at the ends of lines are left out. Tokens may share a
// text. InvalidArgument names the line or token: an id twice, an id that is missing, no token at
// all. `path`: for messages.
absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path, const std::string& content,
                                        std::vector<std::string>& reasons);

// Whether the content begins as a JSON object.
bool IsJsonObject(absl::string_view content);
// The tokens of a JSON object of ids by token, in the order of their ids. InvalidArgument: it is
// none, or an id is missing or there twice.
absl::StatusOr<std::vector<std::string>> TokensOfObject(const std::string& content);

// Whether each line is "TOKEN ID", with the ids from 0 on, or all is a JSON object of ids by token.
bool IsNumberedList(absl::string_view content);

// The tokens of a tokenizer.json whose BPE writes what it lacks as bytes (Llama 2, Moonshine), one
// a line: for a target, of which no text is cut. std::nullopt: it is another file. InvalidArgument
// as above.
absl::StatusOr<std::optional<std::string>> PiecesOfTokenizer(const std::string& content);

// `content` without a byte order mark, and without the carriage returns of Windows' line ends.
std::string WithUnixLines(absl::string_view content);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_FILE_H_
