// Reductions over axes, the two softmaxes, and normalisations.
#ifndef BEAMWRIGHT_OPS_KERNELS_REDUCE_H_
#define BEAMWRIGHT_OPS_KERNELS_REDUCE_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// Reductions over axes, and the two softmaxes. Each element of a result is summed in an order that
// follows from the reduced extents alone (16 lanes, ops/kernels/math.h), so its bits do not depend
// on the other rows.

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

// Normalisations of f32 and f64 data, f16 and bf16 in f32. A sum goes over the elements of one
// group in the order of the data, in 16 lanes for f32 (ops/kernels/math.h).

// BatchNormInference-5: data [N, C, ..], gamma, beta, mean, variance [C]; attribute epsilon.
// (data - mean) / sqrt(variance + epsilon) * gamma + beta.
extern const OperatorCode kBatchNormInference;

// MVN-6: data, axes; attributes normalize_variance, eps, eps_mode (inside_sqrt or outside_sqrt).
// MVN-1: data alone; attributes normalize_variance, eps (outside the root), across_channels: over
// all axes from 1 (true) or 2 on.
extern const OperatorCode kMvn;

// NormalizeL2-1: data, axes; attributes eps, eps_mode (add or max): data / sqrt(sum of squares, eps
// added to it or its least value). Without axes each element is normalised by itself.
extern const OperatorCode kNormalizeL2;

// GroupNormalization-12: data [N, C, ..], scale [C], bias [C]; attributes num_groups, epsilon.
extern const OperatorCode kGroupNormalization;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_REDUCE_H_
