// Rows times a packed weight: the innermost kernel of PackedMatMul.
//
// The weight is stored in strips of 32 columns, [strips][depth][32], zeros behind the last column,
// as f32, as bf16, which is widened in registers, or as pairs of bf16. An element of the result is
// one chain of fused multiply-adds in ascending depth, from its start value, whichever instructions
// compute it and whatever other rows and columns are computed with it: that is why its bits
// follow from its own row and column alone.
//
// With pairs, activations are rounded to bf16 as well, and what is below the smallest normal number
// counts as zero: the operands, the start, and the sum after each of its terms. That is what
// AVX512_BF16 computes (measured over random bits, subnormals included); without it other
// instructions do.
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_

#include <bit>
#include <cstdint>

#include "ops/base/vector_isa.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

inline constexpr int64_t kStripColumns = 32;

// What an element's sum starts from: 0, plus bias[column], plus the content of `out`.
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

// Two bf16 of neighbouring depths, zero where they would be subnormal. The first is in the upper
// half, which the hardware adds first.
struct Bf16Pair {
  uint32_t bits;
};

inline Bf16Pair PairOf(float first, float second) {
  const auto half = [](float x) BW_ALWAYS_INLINE {
    const uint32_t bits = RoundToBf16(x).bits;
    return (bits & 0x7f80) == 0 ? bits & 0x8000 : bits;
  };
  return {half(first) << 16 | half(second)};
}

BW_ALWAYS_INLINE inline float FirstOf(Bf16Pair pair) {
  return std::bit_cast<float>(pair.bits & 0xffff0000);
}
BW_ALWAYS_INLINE inline float SecondOf(Bf16Pair pair) {
  return std::bit_cast<float>(pair.bits << 16);
}

// What rows are multiplied with a weight of this type.
template <typename Weight>
struct ActivationFor {
  using Type = float;
};
template <>
struct ActivationFor<Bf16Pair> {
  using Type = Bf16Pair;
};

// out [rows, columns] from a [rows, depth]; with pairs, `depth` counts these. strips: the first of
// ceil(columns / 32) strips, aligned to 64 bytes. One thread. Weight: float, Bf16 or Bf16Pair; the
// bits are those of the widened weight. from_memory: no cache holds the weight
// (kMinBytesFromMemory); a matter of speed alone.
template <typename Weight>
void MultiplyStrips(VectorIsa isa, ConstMatrix<typename ActivationFor<Weight>::Type> a,
                    const Weight* strips, bool from_memory, const ProductStart& start,
                    Matrix<float> out);

extern template void MultiplyStrips(VectorIsa, ConstMatrix<float>, const float*, bool,
                                    const ProductStart&, Matrix<float>);
extern template void MultiplyStrips(VectorIsa, ConstMatrix<float>, const Bf16*, bool,
                                    const ProductStart&, Matrix<float>);
extern template void MultiplyStrips(VectorIsa, ConstMatrix<Bf16Pair>, const Bf16Pair*, bool,
                                    const ProductStart&, Matrix<float>);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIP_PRODUCT_H_
