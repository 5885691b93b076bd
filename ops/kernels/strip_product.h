// Rows times a packed weight: the innermost kernel of PackedMatMul.
//
// The weight is stored in strips of 32 columns, [strips][depth][32], zeros behind the last column,
// as f32 or as bf16, which is widened in registers. An element of the result is one chain of fused
// multiply-adds in ascending depth, from its start value, whichever instructions compute it and
// whatever other rows and columns are computed beside it: that is why its bits follow from its own
// row and column alone.
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_

#include <bit>
#include <cstdint>

#include "ops/base/vector_isa.h"
#include "ops/tensor/matrix.h"

namespace beamwright::ops {

inline constexpr int64_t kStripColumns = 32;

// What an element's sum starts from: 0, plus bias[column], plus what stands in `out`.
struct ProductStart {
  const float* bias = nullptr;  // [out.columns] or null
  bool from_output = false;
};

// The upper half of an f32. 16 pairs make the 32 columns of a strip: column i and column 16 + i, so
// that one load gives two vectors of f32, by a shift and by a mask.
struct Bf16 {
  uint16_t bits;
};

// Where column n stands among the 32 of a strip of bf16.
inline int64_t Bf16Place(int64_t n) { return n < 16 ? 2 * n : 2 * (n - 16) + 1; }

// The nearest bf16, ties to even; NaN stays NaN.
inline Bf16 RoundToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  }
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// out [rows, columns] from a [rows, depth]. strips: the first of ceil(columns / 32) strips, aligned
// to 64 bytes. One thread. Weight: float or Bf16; the bits are those of the widened weight.
template <typename Weight>
void MultiplyStrips(VectorIsa isa, ConstMatrix<float> a, const Weight* strips,
                    const ProductStart& start, Matrix<float> out);

extern template void MultiplyStrips(VectorIsa, ConstMatrix<float>, const float*,
                                    const ProductStart&, Matrix<float>);
extern template void MultiplyStrips(VectorIsa, ConstMatrix<float>, const Bf16*, const ProductStart&,
                                    Matrix<float>);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_
