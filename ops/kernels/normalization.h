// Normalisations of f32 and f64 data, f16 and bf16 in f32. A sum goes over the elements of one
// group in the order of the data, in 16 lanes for f32 (ops/kernels/math.h).
#ifndef BEAMWRIGHT_OPS_KERNELS_NORMALIZATION_H_
#define BEAMWRIGHT_OPS_KERNELS_NORMALIZATION_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_KERNELS_NORMALIZATION_H_
