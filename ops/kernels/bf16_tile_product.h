// Rows times a weight, both in bf16, in the order of sums of AMX: what PackedMatMul computes in
// precision bf16-amx.
//
// The weight is stored as for bf16-dot, [strips][pairs][32], the pairs filled up with zeros to
// whole tiles of 16. For each tile of the depth in ascending order, an element of the result is
//
//   sum = sum + (first + second),
//
// where first and second are chains of fused multiply-adds from zero: of the terms that stand in
// the upper halves of the tile's pairs, and in the lower halves. What is subnormal counts as zero:
// operands, start, both chains after each term, and both additions. CPUs without AMX compute the
// same bits, at a third to two thirds of the speed of f32.
#ifndef BEAMWRIGHT_OPS_KERNELS_BF16_TILE_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_BF16_TILE_PRODUCT_H_

#include "ops/base/vector_isa.h"
#include "ops/kernels/strip_product.h"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

// out [rows, columns] from a [rows, pairs], whole tiles of these, zeros at the end. strips: the
// first of ceil(columns / 32), aligned to 64 bytes. One thread.
void MultiplyBf16Tiles(VectorIsa isa, ConstMatrix<Bf16Pair> a, const Bf16Pair* strips,
                       const ProductStart& start, Matrix<float> out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_BF16_TILE_PRODUCT_H_
