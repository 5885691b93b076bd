// States of many layers as exports hand them on: one value, layers first, of which each layer takes
// its part by a Slice, and whose parts a Concat joins again. A served graph has rows first, so that
// all of it is transposed before and behind. But a part of one layer has its elements in the same
// order either way: slices are taken of what is not transposed, parts are joined where they belong,
// and nothing is transposed any more.
#ifndef BEAMWRIGHT_OPS_COMPILE_LAYER_TRANSPOSES_H_
#define BEAMWRIGHT_OPS_COMPILE_LAYER_TRANSPOSES_H_

#include "absl/status/status.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them, before and after. Bodies stay as they are.
absl::Status DropLayerTransposes(Graph& graph, GraphInfo& info, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_LAYER_TRANSPOSES_H_
