// From a request's DecodeOptions to the search's: defaults, tokens, and every fault at once.
#ifndef BEAMWRIGHT_SERVER_ENGINE_DECODE_OPTIONS_H_
#define BEAMWRIGHT_SERVER_ENGINE_DECODE_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "server/engine/decode_model.h"
#include "server/search/options.h"

namespace beamwright::engine {

struct ResolvedOptions {
  v1::DecodeOptions merged;      // over the bundle's defaults over the fields' own
  search::SearchOptions search;  // lengths as SetLengths leaves them
};

// Everything that does not depend on the source. InvalidArgument naming all wrong fields, and all
// fields that exclude each other.
absl::StatusOr<ResolvedOptions> ResolveOptions(const DecodeModel& model,
                                               const v1::DecodeOptions& options);

// The lengths for a source of so many tokens. InvalidArgument if they contradict each other.
absl::Status SetLengths(const DecodeModel& model, int source_length, ResolvedOptions& options);

// The shortlist by the model's lexical table, where it is asked for. InvalidArgument if the source
// has no ids.
absl::Status SetShortlist(const DecodeModel& model, absl::Span<const int32_t> source_ids,
                          ResolvedOptions& options);

search::LengthPenalty PenaltyOf(v1::LengthPenalty penalty);

// Appends what is wrong about options that need attention, if the model has none.
void CheckAttention(const DecodeModel& model, double coverage_penalty, v1::Attention attention,
                    std::vector<std::string>& faults);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_DECODE_OPTIONS_H_
