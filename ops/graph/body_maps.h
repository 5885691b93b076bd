// The rules that connect a Loop or an If with the graphs inside it: checks that need no types and
// no shapes. For passes over loops: ops/graph and ops/compile.
#ifndef BEAMWRIGHT_OPS_GRAPH_BODY_MAPS_H_
#define BEAMWRIGHT_OPS_GRAPH_BODY_MAPS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// The one place that says which parts of an axis a loop reads (docs/graph-files.md, 'Slices').

// Part t of the range starts at first + t * step and has part_size elements in ascending order.
struct SliceRange {
  int64_t first = 0;
  int64_t step = 1;
  int64_t part_size = 1;
  int64_t count = 0;
};

// Resolves a kSliced input over an axis of `extent` elements. start and end are inclusive and count
// from the end when negative; the direction of stride must lead from start to end; the range must
// divide into whole parts. An empty axis has count 0 if the input may be empty; otherwise it is an
// error.
absl::StatusOr<SliceRange> ResolveSlice(const LoopInput& input, int64_t extent);

// Checks the loop's maps against its body and the node: indices, every body Parameter fed once,
// back edges, conditions, what lengths ask for. Errors name the port.
absl::Status CheckLoopMaps(const Node& node);

// The same of both branches of an If.
absl::Status CheckBranchMaps(const Node& node);

// "input port 0 (body Parameter 'x')": how messages name a rule.
std::string Where(const Loop& loop, const LoopInput& input);

// The rule whose back edge the body result is the source of (the first, if several); nullptr if
// missing.
const LoopInput* FindState(const Loop& loop, int body_result);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_BODY_MAPS_H_
