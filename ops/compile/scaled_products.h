// Products in 8 bits with a known matrix, as dynamic quantisation writes them: integers are
// multiplied, converted, scaled, a bias is added, and often another value. Node by node each of
// these passes over all results; as one node, ScaledIntegerProduct (ops/kernels/quantization.h),
// they are done where the sums are. The operations and their order stay, and so do the bits.
#ifndef BEAMWRIGHT_OPS_COMPILE_SCALED_PRODUCTS_H_
#define BEAMWRIGHT_OPS_COMPILE_SCALED_PRODUCTS_H_

#include "absl/status/status.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them, before and after. Bodies stay as they are.
absl::Status JoinScaledProducts(Graph& graph, GraphInfo& info, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SCALED_PRODUCTS_H_
