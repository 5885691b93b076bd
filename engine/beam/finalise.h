// Finalisation: the n-best lists of requests that finished at the same step, by one GatherTree over
// [time, request, slot] (docs/architecture.md, 'Slots').
#ifndef BEAMWRIGHT_ENGINE_BEAM_FINALISE_H_
#define BEAMWRIGHT_ENGINE_BEAM_FINALISE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/search/beam_search.h"
#include "ops/graph/operator.h"

namespace beamwright::engine {

// N-best list of each search; an element's error concerns that search alone.
std::vector<absl::StatusOr<std::vector<search::Hypothesis>>> Finalise(
    const ops::ExecutionContext& context, absl::Span<const search::BeamSearch* const> searches);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_FINALISE_H_
