// Axes of 1 that bodies of loops take away and put back. A TensorIterator's slices and parts keep
// the axis along which they are cut, so its body begins with a Squeeze of each slice and ends with
// an Unsqueeze of each part, which cost more in an iteration than a small body's arithmetic. A
// slice that loses its axis, and parts that are stacked along a new one, are the same elements.
#ifndef BEAMWRIGHT_OPS_COMPILE_PART_AXES_H_
#define BEAMWRIGHT_OPS_COMPILE_PART_AXES_H_

#include "absl/status/status.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them, before and after. Loops inside bodies and branches
// stay as they are.
absl::Status DropPartAxes(Graph& graph, GraphInfo& info, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_PART_AXES_H_
