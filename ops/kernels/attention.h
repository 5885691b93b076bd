// What layers of transformers compute in one pass: attention, the shift of its relative positions,
// and the sum and norm at their end. In no file: nodes become these when a graph is compiled
// (ops/passes).
#ifndef BEAMWRIGHT_OPS_KERNELS_ATTENTION_H_
#define BEAMWRIGHT_OPS_KERNELS_ATTENTION_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// Attention: shares of values by the products of queries and keys, head by head. In no file:
// MatMul, Multiply, SoftMax and MatMul become one when a graph is compiled
// (ops/passes/layer_fusion.cc), and so are the bits. Scores of a few queries stay in the first
// cache, and a request of a step, whose keys and values no other request shares, costs one call
// instead of four.

inline constexpr char kAttentionName[] = "Attention";

// f32: queries [.., positions, depth], keys [.., depth, length], or with attribute transpose_b
// [.., length, depth], values [.., length, width]; leading axes broadcast, as MatMul has it.
// Attribute scale: of the products. Outputs: [.., positions, width], and if there are two, the
// shares: SoftMax of the scaled products over `length`. Without shares there may be lengths, i64
// with a number for each item of the first axis of the keys, which the others have as well: keys
// and values of the item behind its length do not count, and rows of its output behind it are 0.
extern const OperatorCode kAttention;

// RelativeShift: attention's scores by relative position, [.., time, places], as scores of keys:
//
//   out[.., t, key] = data[.., t, time - 1 - t + key]
//
// Place `time - 1` is distance 0. Each step reads a window of its row that moves by one from step
// to step. In no file: exporters write the windows as computed indices over joined axes, which
// FindRelativeShifts recognises.

inline constexpr char kRelativeShiftName[] = "RelativeShift";

// data [.., time, places] of any type, and how many keys there are, an integer of one element. An
// error unless time - 1 + keys is at most places.
extern const OperatorCode kRelativeShift;

// AddedNorm: the end of a layer of a transformer in one pass over its rows. In no file: Add, MVN,
// Multiply and Add become one when a graph is compiled (ops/passes/layer_fusion.cc), and so are
// the bits. As four nodes a row of some hundred numbers is read and written eight times, and each
// node checks types and shapes.

inline constexpr char kAddedNormName[] = "AddedNorm";

// f32: x [.., width], scale [width], shift [width], addend (may be absent; broadcasts with x);
// attribute eps. With z = x + addend, over the last axis:
//   (z - mean(z)) / sqrt(variance(z) + eps) * scale + shift
// mean and variance are sums in 16 lanes (ops/kernels/math.h), divided by the width.
extern const OperatorCode kAddedNorm;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ATTENTION_H_
