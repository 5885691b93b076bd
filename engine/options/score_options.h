// From a request to score targets to what a search::TargetScorer takes.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_SCORE_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_SCORE_OPTIONS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/options.h"

namespace beamwright::engine {

struct ResolvedScoring {
  v1::ScoreOptions merged;  // over the model's defaults for a search over the fields' own
  search::SearchOptions search;
};

// InvalidArgument naming all wrong fields.
absl::StatusOr<ResolvedScoring> ResolveScoring(const DecodeModel& model,
                                               const v1::ScoreOptions& options);

// The targets' ids, with end tokens where they are asked for. InvalidArgument naming all wrong
// targets, "targets[i]".
absl::StatusOr<std::vector<search::TokenSequence>> ReadTargets(
    const DecodeModel& model, const v1::ScoreOptions& options,
    const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_SCORE_OPTIONS_H_
