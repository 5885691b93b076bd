// What a request's DecodeOptions say to the search, field by field.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_READ_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_READ_OPTIONS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

// Fills `search`, but for what depends on the source, from options that have their defaults and
// keep their fields' rules. Adds what is wrong for this model, or excludes each other.
void ReadOptions(const DecodeModel& model, const v1::DecodeOptions& merged,
                 search::SearchOptions& search, status::Faults& faults);

// From a request's options to those of a search by frames.

// From a request to score targets to what a search::CtcScorer or TransducerScorer takes.

// InvalidArgument naming all wrong fields: options that a search by frames does not know among
// them.
absl::StatusOr<search::FrameOptions> ResolveFrameScoring(const DecodeModel& model,
                                                         const v1::ScoreOptions& options);

// The targets' ids; none at all is a target, too. InvalidArgument naming all wrong targets,
// "targets[i]".
absl::StatusOr<std::vector<search::TokenSequence>> ReadFrameTargets(
    const DecodeModel& model, const google::protobuf::RepeatedPtrField<v1::TargetTokens>& targets);

// What the model alone says of its search: kind, vocabulary, blank, durations.
search::FrameOptions ModelFrameOptions(const DecodeModel& model);

// The plan that `merged` asks for, of a model without a decoder; null if something is wrong with
// it, which is added to `faults`, "options.beam_size".
std::shared_ptr<const search::FramePlan> ReadFrameOptions(const DecodeModel& model,
                                                          const v1::DecodeOptions& merged,
                                                          status::Faults& faults);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_READ_OPTIONS_H_
