// Reductions over axes, and the two softmaxes. Each element of a result is summed in an order that
// follows from the reduced extents alone (16 lanes, ops/kernels/math.h), so its bits do not depend
// on the other rows.
#ifndef BEAMWRIGHT_OPS_KERNELS_REDUCE_H_
#define BEAMWRIGHT_OPS_KERNELS_REDUCE_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd on f32, i32, i64: axes is the second
// input (empty: nothing is reduced), attribute keep_dims (default false). Integers wrap, their mean
// truncates towards zero. Over no elements: sum 0, product 1, maximum and minimum the type's lowest
// and highest value (infinities), mean NaN for f32 and an error for integers.
extern const OperatorCode kReduce;
// SoftMax and LogSoftmax over attribute axis (negative counts from the end; default 1), f32. A
// slice that is -infinity throughout gives NaN, as the formula does.
extern const OperatorCode kSoftmax;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_REDUCE_H_
