#include "ops/kernels/tap_rows.h"

#include <algorithm>
#include <cmath>

#include "ops/kernels/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

// Outputs that have their sums in registers at once.
using BlockFunction = void (*)(const Taps& taps, const float* from, float* out);

constexpr int64_t kPlainOutputs = 16;

void PlainBlock(const Taps& taps, const float* from, float* out) {
  float sums[kPlainOutputs] = {};
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const float weight = taps.weights[tap];
    const float* const operands = from + taps.offsets[tap];
    for (int64_t x = 0; x < kPlainOutputs; ++x) {
      sums[x] = std::fma(weight, operands[x], sums[x]);
    }
  }
  std::copy(sums, sums + kPlainOutputs, out);
}

#if defined(__x86_64__)

template <int kVectors>
BW_TARGET_AVX512 void Avx512Block(const Taps& taps, const float* from, float* out) {
  __m512 sums[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = _mm512_setzero_ps();
  }
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const __m512 weight = _mm512_set1_ps(taps.weights[tap]);
    const float* const operands = from + taps.offsets[tap];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(operands + 16 * v), sums[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    _mm512_storeu_ps(out + 16 * v, sums[v]);
  }
}

template <int kVectors>
BW_TARGET_AVX2 void Avx2Block(const Taps& taps, const float* from, float* out) {
  __m256 sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = _mm256_setzero_ps();
  }
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const __m256 weight = _mm256_broadcast_ss(taps.weights + tap);
    const float* const operands = from + taps.offsets[tap];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(operands + 8 * v), sums[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    _mm256_storeu_ps(out + 8 * v, sums[v]);
  }
}

#endif

// Blocks of 1 to `most` times 16 outputs, by that number.
struct Blocks {
  int64_t most;
  const BlockFunction* functions;  // [most + 1]
};

Blocks BlocksFor(VectorIsa isa) {
  static constexpr BlockFunction kPlain[] = {nullptr, &PlainBlock};
#if defined(__x86_64__)
  static constexpr BlockFunction kAvx512[] = {nullptr, &Avx512Block<1>, &Avx512Block<2>,
                                              &Avx512Block<3>, &Avx512Block<4>};
  static constexpr BlockFunction kAvx2[] = {nullptr, &Avx2Block<2>, &Avx2Block<4>, &Avx2Block<6>,
                                            &Avx2Block<8>};
  switch (isa) {
    case VectorIsa::kAmx:
    case VectorIsa::kAvx512:
      return {4, kAvx512};
    case VectorIsa::kAvx2:
      return {4, kAvx2};
    case VectorIsa::kPlain:
      break;
  }
#endif
  (void)isa;
  return {1, kPlain};
}

}  // namespace

void AddTaps(VectorIsa isa, const Taps& taps, const float* from, int64_t width, float* out) {
  constexpr int64_t kOutputs = 16;
  const Blocks blocks = BlocksFor(isa);
  for (int64_t x = 0; x < width;) {
    const int64_t count = std::min(blocks.most, CeilDiv(width - x, kOutputs));
    const int64_t outputs = std::min(count * kOutputs, width - x);
    if (outputs == count * kOutputs) {
      blocks.functions[count](taps, from + x, out + x);
    } else {
      float whole[4 * kOutputs];
      blocks.functions[count](taps, from + x, whole);
      std::copy(whole, whole + outputs, out + x);
    }
    x += outputs;
  }
}

}  // namespace beamwright::ops
