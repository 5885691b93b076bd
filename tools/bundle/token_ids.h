// Vocabularies as OPUS-MT's models have them: a SentencePiece model for each side, which cuts its
// texts, and one file that numbers the tokens of both (opus.spm32k-spm32k.vocab.yml). A bundle has
// the numbers in the SentencePiece models.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_IDS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_IDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::tools {

// Tokens by their ids. The file is YAML or JSON with a token and its id a line or a member:
// `"▁de": 4`. InvalidArgument naming the line: something else, an id that is there twice or
// missing.
absl::StatusOr<std::vector<std::string>> ReadTokenIds(absl::string_view content);

// The SentencePiece model `model` with its pieces in the order of `tokens`. Tokens that it lacks,
// of the other side, are in it as pieces that no text is cut into; '>>fra<<', which names a target
// language, as one that a text may begin with. Pieces that are no token are left out: texts are cut
// into others. InvalidArgument: not such a model, or none of its pieces is a token.
absl::StatusOr<std::string> NumberPieces(const std::string& model,
                                         const std::vector<std::string>& tokens);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TOKEN_IDS_H_
