// Tokens that a request gives for the target side.
#ifndef BEAMWRIGHT_SERVER_ENGINE_ASKING_TARGET_TOKENS_H_
#define BEAMWRIGHT_SERVER_ENGINE_ASKING_TARGET_TOKENS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "server/engine/model/decode_model.h"
#include "server/search/options.h"

namespace beamwright::engine {

// The ids that `field` names. InvalidArgument, beginning with the field: it is empty, has text
// that is not in the vocabulary, or an id outside it or of the blank.
absl::StatusOr<std::vector<int32_t>> ReadTokens(const DecodeModel& model, const std::string& field,
                                                const v1::TargetTokens& tokens);

// What the model alone says of a search: vocabulary, begin, end and banned tokens.
void SetModelTokens(const DecodeModel& model, search::SearchOptions& search);

// Most target tokens, and the widest beam, that the model allows.
int MaxTargetLength(const DecodeModel& model);
int MaxBeamSize(const DecodeModel& model);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_ASKING_TARGET_TOKENS_H_
