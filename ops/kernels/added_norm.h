// AddedNorm: the end of a layer of a transformer in one pass over its rows. In no file: Add, MVN,
// Multiply and Add become one when a graph is compiled (ops/passes/layer_fusion.cc), and so are
// the bits. As four nodes a row of some hundred numbers is read and written eight times, and each
// node checks types and shapes.
#ifndef BEAMWRIGHT_OPS_KERNELS_ADDED_NORM_H_
#define BEAMWRIGHT_OPS_KERNELS_ADDED_NORM_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

inline constexpr char kAddedNormName[] = "AddedNorm";

// f32: x [.., width], scale [width], shift [width], addend (may be absent; broadcasts with x);
// attribute eps. With z = x + addend, over the last axis:
//   (z - mean(z)) / sqrt(variance(z) + eps) * scale + shift
// mean and variance are sums in 16 lanes (ops/kernels/math.h), divided by the width.
extern const OperatorCode kAddedNorm;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ADDED_NORM_H_
