// Reductions over axes, and the two softmaxes. Each element of a result is summed in an order that
// follows from the reduced extents alone (16 lanes, ops/kernels/math.h), so its bits do not depend
// on the other rows.
#ifndef BEAMWRIGHT_OPS_KERNELS_REDUCE_H_
#define BEAMWRIGHT_OPS_KERNELS_REDUCE_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2 on numeric types,
// ReduceLogicalAnd and ReduceLogicalOr on boolean: axes is the second input (empty: nothing is
// reduced), attribute keep_dims (default false). f16 and bf16 are reduced in f32 and rounded once.
// Integers wrap; their mean is taken of a 64-bit sum and truncates towards zero, their ReduceL2 is
// computed in f64 and truncated. Over no elements: sum 0, product 1, maximum and minimum the type's
// lowest and highest value (infinities), and true, or false, mean NaN for floats and an error for
// integers.
extern const OperatorCode kReduce;
// SoftMax and LogSoftmax over attribute axis (negative counts from the end; default 1), on floats.
// A slice that is -infinity throughout gives NaN, as the formula does.
extern const OperatorCode kSoftmax;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_REDUCE_H_
