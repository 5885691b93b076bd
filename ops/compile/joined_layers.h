// Nodes that a layer spells out, joined to one operator each, with the bits that they had:
//   MatMul with a known weight, Add of a known bias, ReLU  to  BiasedProduct (ops/kernels/matmul.h)
//   MatMul, Multiply by a number, SoftMax, MatMul          to  Attention (ops/kernels/attention.h)
//   Add, MVN over the last axis, Multiply, Add             to  AddedNorm (ops/kernels/added_norm.h)
// What lies between stays in the caches next to the core, and a layer of a transformer has a third
// of its nodes, each of which costs half a microsecond however few rows it sees.
#ifndef BEAMWRIGHT_OPS_COMPILE_JOINED_LAYERS_H_
#define BEAMWRIGHT_OPS_COMPILE_JOINED_LAYERS_H_

#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them, before and after. For a whole graph or a step; the
// bodies of its loops and branches stay as they are.
absl::Status JoinLayers(Graph& graph, GraphInfo& info, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_JOINED_LAYERS_H_
