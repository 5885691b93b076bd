// Products of a loop's sliced inputs with constant weights (X * W^T of recurrent cells, and plain
// products) depend on no state: for a whole sequence they are computed for all time steps at once,
// before the loop, which then slices what came out. One large product reads the weights once, where
// a product each step reads them again and again. Where the input is narrower than the product it
// is transposed to [time, rows, width] first, so that the part of a time step stands together and
// is not copied. The bits are the same: a row of a packed product does not depend on how many rows
// there are (docs/numerics.md).
//
// For graphs that are run over whole sequences. A search chooses its slices step by step.
#ifndef BEAMWRIGHT_OPS_COMPILE_HOIST_INPUTS_H_
#define BEAMWRIGHT_OPS_COMPILE_HOIST_INPUTS_H_

#include "absl/status/status.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Nodes of a loop's body whose product is computed before the loop; empty without any.
std::vector<int> HoistedProducts(const Loop& loop, const GraphInfo& body_info);

// `graph` and `info` as InferGraph leaves them, before and after. Loops inside bodies stay as they
// are, and so do loops with a trip count, a condition, or items that run apart.
absl::Status HoistInputProducts(Graph& graph, GraphInfo& info, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_HOIST_INPUTS_H_
