// Einsum-7: sums of products of tensors by an equation (attribute `equation`,
// ops/kernels/einsum_equation.h). Any float or integer type, the same for all inputs; f16 and bf16
// in f32, integers wrap.
//
// Inputs are contracted from left to right. Each pair becomes a batch of matrix products after
// labels that only one of them has and that are not needed later were summed away; a repeated label
// of one input is its diagonal. Sums ascend over the contracted labels in the order in which the
// left operand has them, so an output element's bits follow from its own operands alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_EINSUM_H_
#define BEAMWRIGHT_OPS_KERNELS_EINSUM_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

extern const OperatorCode kEinsum;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_EINSUM_H_
