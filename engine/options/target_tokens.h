// Tokens that a request gives for the target side.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_TARGET_TOKENS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_TARGET_TOKENS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"

namespace beamwright::engine {

// The ids that `field` names. InvalidArgument, beginning with the field: it is empty, has text
// that is not in the vocabulary, or an id outside it or of the blank.
absl::StatusOr<std::vector<int32_t>> ReadTokens(const DecodeModel& model, const std::string& field,
                                                const v1::TargetTokens& tokens);

// The ids of the targets of a source, `complete` of each. An empty target is no tokens if
// `may_be_empty`, else at fault. InvalidArgument naming all wrong targets, "targets[i]": as
// ReadTokens, too many of them, or too many tokens of one or of all.
absl::StatusOr<std::vector<search::TokenSequence>> ReadTargetList(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets,
    bool may_be_empty, absl::FunctionRef<void(search::TokenSequence&)> complete);

// What the model alone says of a search: vocabulary, begin, end and banned tokens.
void SetModelTokens(const DecodeModel& model, search::SearchOptions& search);

// Most target tokens, and the widest beam, that the model allows.
int MaxTargetLength(const DecodeModel& model);
int MaxBeamSize(const DecodeModel& model);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_TARGET_TOKENS_H_
