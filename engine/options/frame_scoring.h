// From a request to score targets to what a search::CtcScorer or TransducerScorer takes.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_FRAME_SCORING_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_FRAME_SCORING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/frames/frame_options.h"

namespace beamwright::engine {

// InvalidArgument naming all wrong fields: options that a search by frames does not know among
// them.
absl::StatusOr<search::FrameOptions> ResolveFrameScoring(const DecodeModel& model,
                                                         const v1::ScoreOptions& options);

// The targets' ids; none at all is a target, too. InvalidArgument naming all wrong targets,
// "targets[i]".
absl::StatusOr<std::vector<search::TokenSequence>> ReadFrameTargets(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_FRAME_SCORING_H_
