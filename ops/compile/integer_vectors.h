// Integer products with a vector, as attention's energies have them: quantize_dynamic writes
// MatMulInteger with a list [depth], and takes the scale of the other operand to what comes out,
// which lacks that operand's last axis. As one number for all the scale fits either way; one for
// each row has an axis for each of the operand's. Private to shape_folding.cc.
#ifndef BEAMWRIGHT_OPS_COMPILE_INTEGER_VECTORS_H_
#define BEAMWRIGHT_OPS_COMPILE_INTEGER_VECTORS_H_

#include "ops/graph/graph.h"

namespace beamwright::ops {

// Multiplies with [depth, 1] instead, and drops the axis only behind the scales. Whether anything
// changed; then the graph has to be inferred anew. `graph` as InferGraph leaves it.
bool ScaleBeforeDropping(Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_INTEGER_VECTORS_H_
