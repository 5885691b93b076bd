// Attention: shares of values by the products of queries and keys, head by head. In no file:
// MatMul, Multiply, SoftMax and MatMul become one when a graph is compiled
// (ops/passes/layer_fusion.cc), and so are the bits. Scores of a few queries stay in the first
// cache, and a request of a step, whose keys and values no other request shares, costs one call
// instead of four.
#ifndef BEAMWRIGHT_OPS_KERNELS_ATTENTION_H_
#define BEAMWRIGHT_OPS_KERNELS_ATTENTION_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

inline constexpr char kAttentionName[] = "Attention";

// f32: queries [.., positions, depth], keys [.., depth, length], or with attribute transpose_b
// [.., length, depth], values [.., length, width]; leading axes broadcast, as MatMul has it.
// Attribute scale: of the products. Outputs: [.., positions, width], and if there are two, the
// shares: SoftMax of the scaled products over `length`. Without shares there may be lengths, i64
// with a number for each item of the first axis of the keys, which the others have as well: keys
// and values of the item behind its length do not count, and rows of its output behind it are 0.
extern const OperatorCode kAttention;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ATTENTION_H_
