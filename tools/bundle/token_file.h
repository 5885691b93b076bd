// The token lists that toolkits put beside CTC models and transducers, as the vocabulary of a
// bundle: one token a line, the line its id.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_FILE_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace beamwright::tools {

// Tokens by id, of a file in one of these forms, which its content tells:
// - "TOKEN ID" a line, in any order (tokens.txt of icefall, sherpa-onnx, NeMo scripts, WeNet); a
// line
//   with nothing but an id is the space;
// - a JSON object of ids by token (vocab.json of Hugging Face);
// - one token a line (dictionaries of OCR models); a last line without a token does not count.
// InvalidArgument names the line or token: an id twice, an id that is missing, no token at all.
// `path`: for messages.
absl::StatusOr<std::vector<std::string>> ReadTokenFile(const std::string& path,
                                                       const std::string& content,
                                                       std::vector<std::string>& reasons);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_FILE_H_
