// Files of Marian's models: .npz models as .bin files, which graphs are read from, and vocabularies
// of SentencePiece models whose tokens a second file numbers.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_MARIAN_FILES_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_MARIAN_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/numpy/npz.h"

namespace beamwright::tools {

// Marian's .npz models as .bin files, which graphs are read from.

// The content of the .bin file with the same arrays; its bytes depend on `arrays` alone.
// InvalidArgument: no options (special:model.yml). Unimplemented: types other than f32, and i8 of
// the options.
absl::StatusOr<std::string> MarianBinOf(const ops::TensorMap& arrays);

// Vocabularies as OPUS-MT's models have them: a SentencePiece model for each side, which cuts its
// texts, and one file that numbers the tokens of both (opus.spm32k-spm32k.vocab.yml). A bundle has
// the numbers in the SentencePiece models.

// Tokens by their ids. The file is YAML with a token and its id a line, `"▁de": 4`, or a JSON
// object of ids by token. InvalidArgument, of YAML naming the line: something else, an id that is
// there twice or missing.
absl::StatusOr<std::vector<std::string>> ReadTokenIds(absl::string_view content);

// The SentencePiece model `model` with its pieces in the order of `tokens`. Tokens that it lacks,
// of the other side, are in it as pieces that no text is cut into; '>>fra<<', which names a target
// language, as one that a text may begin with. Pieces that are no token are left out: texts are cut
// into others. InvalidArgument: not such a model, or none of its pieces is a token.
absl::StatusOr<std::string> NumberPieces(const std::string& model,
                                         const std::vector<std::string>& tokens);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_MARIAN_FILES_H_
