// From a request's DecodeOptions to the search's: defaults, tokens, and every fault at once.
#ifndef BEAMWRIGHT_ENGINE_OPTIONS_DECODE_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_OPTIONS_DECODE_OPTIONS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"
#include "engine/options/resolve.h"
#include "engine/request/prepared_source.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/options.h"
#include "engine/status/fault.h"

namespace beamwright::engine {

// From a request to score targets to what a search::TargetScorer takes.
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

struct ResolvedOptions {
  v1::DecodeOptions merged;      // over the bundle's defaults over the fields' own
  search::SearchOptions search;  // but for what depends on the source; of a search by frames unused
  std::shared_ptr<const search::FramePlan> frames;  // of a search by frames; else null
};

// ResolveOptions as if the bundle had no default options.
absl::StatusOr<std::shared_ptr<const ResolvedOptions>> ResolveWithoutDefaults(
    const DecodeModel& model, const v1::DecodeOptions& options);

// The search's options for one source. InvalidArgument if lengths contradict each other, or the
// source has no ids where the lexical table asks for them.
absl::StatusOr<search::SearchOptions> OptionsForSource(const DecodeModel& model,
                                                       const ResolvedOptions& options,
                                                       const PreparedSource& source);

// InvalidArgument, naming default_options' fields, if the bundle's defaults are such that no
// request without options can be decoded.
absl::Status CheckDefaultOptions(const DecodeModel& model);

search::LengthPenalty PenaltyOf(v1::LengthPenalty penalty);

// Appends what is wrong about options that need attention, if the model has none.
void CheckAttention(const DecodeModel& model, double coverage_penalty, v1::Attention attention,
                    status::Faults& faults);

// What a request's DecodeOptions say to the search, field by field.

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

#endif  // BEAMWRIGHT_ENGINE_OPTIONS_DECODE_OPTIONS_H_
