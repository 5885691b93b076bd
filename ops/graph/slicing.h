// The one place that says which parts of an axis a loop reads (docs/graph-files.md, 'Slices').
#ifndef BEAMWRIGHT_OPS_GRAPH_SLICING_H_
#define BEAMWRIGHT_OPS_GRAPH_SLICING_H_

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_SLICING_H_
