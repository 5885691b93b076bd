#include "ops/kernels/strip_product.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

// A block of rows and whole strips.
struct Block {
  const float* a;
  int64_t a_stride;
  int64_t depth;
  const float* strips;
  const float* bias;  // or null
  bool from_output;
  float* out;
  int64_t out_stride;
};

using BlockFunction = void (*)(const Block&);

template <int kRows>
void PlainBlock(const Block& block) {
  for (int row = 0; row < kRows; ++row) {
    const float* a = block.a + row * block.a_stride;
    float* out = block.out + row * block.out_stride;
    float sums[kStripColumns];
    for (int64_t n = 0; n < kStripColumns; ++n) {
      sums[n] =
          (block.bias == nullptr ? 0.0f : block.bias[n]) + (block.from_output ? out[n] : 0.0f);
    }
    for (int64_t k = 0; k < block.depth; ++k) {
      for (int64_t n = 0; n < kStripColumns; ++n) {
        sums[n] = std::fma(a[k], block.strips[k * kStripColumns + n], sums[n]);
      }
    }
    std::copy(sums, sums + kStripColumns, out);
  }
}

#if defined(__x86_64__)

// How far ahead weights are fetched. The hardware's own prefetching stops at pages of 4 KiB, which
// costs a third of the time where weights come from memory (docs/performance.md).
constexpr int64_t kPrefetchFloats = 1024;

// kRows rows by kStrips strips, sums in registers: rows * strips * 2 of the 32 that there are.
template <int kRows, int kStrips>
BW_TARGET_AVX512 void Avx512Block(const Block& block) {
  constexpr int kVectors = 2 * kStrips;
  const int64_t strip_size = block.depth * kStripColumns;
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      __m512 start =
          block.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(block.bias + 16 * v);
      if (block.from_output) {
        start = _mm512_add_ps(start, _mm512_loadu_ps(block.out + row * block.out_stride + 16 * v));
      }
      sums[row][v] = start;
    }
  }
  const float* weights = block.strips;
  for (int64_t k = 0; k < block.depth; ++k, weights += kStripColumns) {
    _mm_prefetch(weights + kPrefetchFloats, _MM_HINT_T0);
    _mm_prefetch(weights + kPrefetchFloats + 16, _MM_HINT_T0);
    __m512 w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      w[v] = _mm512_load_ps(weights + (v / 2) * strip_size + 16 * (v % 2));
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const __m512 factor = _mm512_set1_ps(block.a[row * block.a_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm512_fmadd_ps(factor, w[v], sums[row][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(block.out + row * block.out_stride + 16 * v, sums[row][v]);
    }
  }
}

// kRows rows by one strip, in 4 / kVectors passes of kVectors vectors: 16 registers hold no more.
template <int kRows, int kVectors>
BW_TARGET_AVX2 void Avx2Block(const Block& block) {
  for (int64_t column = 0; column < kStripColumns; column += 8 * kVectors) {
    __m256 sums[kRows][kVectors];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = column + 8 * v;
        __m256 start =
            block.bias == nullptr ? _mm256_setzero_ps() : _mm256_loadu_ps(block.bias + at);
        if (block.from_output) {
          start = _mm256_add_ps(start, _mm256_loadu_ps(block.out + row * block.out_stride + at));
        }
        sums[row][v] = start;
      }
    }
    const float* weights = block.strips + column;
    for (int64_t k = 0; k < block.depth; ++k, weights += kStripColumns) {
      __m256 w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        w[v] = _mm256_load_ps(weights + 8 * v);
      }
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const __m256 factor = _mm256_broadcast_ss(block.a + row * block.a_stride + k);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[row][v] = _mm256_fmadd_ps(factor, w[v], sums[row][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        _mm256_storeu_ps(block.out + row * block.out_stride + column + 8 * v, sums[row][v]);
      }
    }
  }
}

#endif

// How an instruction set cuts a product: rows at once, and for each number of rows the strips at
// once (few rows need several, to have enough independent sums) and the functions for so many
// strips and for one.
struct Kernels {
  int most_rows;
  const int* strips;             // [most_rows + 1]
  const BlockFunction* several;  // [most_rows + 1]
  const BlockFunction* one;      // [most_rows + 1]
};

constexpr int kPlainStrips[] = {0, 1};
constexpr BlockFunction kPlainOne[] = {nullptr, &PlainBlock<1>};

Kernels KernelsFor(VectorIsa isa) {
#if defined(__x86_64__)
  static constexpr int kAvx512Strips[] = {0, 4, 4, 4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1};
  static constexpr BlockFunction kAvx512Several[] = {nullptr,
                                                     &Avx512Block<1, 4>,
                                                     &Avx512Block<2, 4>,
                                                     &Avx512Block<3, 4>,
                                                     &Avx512Block<4, 3>,
                                                     &Avx512Block<5, 2>,
                                                     &Avx512Block<6, 2>,
                                                     &Avx512Block<7, 2>,
                                                     &Avx512Block<8, 1>,
                                                     &Avx512Block<9, 1>,
                                                     &Avx512Block<10, 1>,
                                                     &Avx512Block<11, 1>,
                                                     &Avx512Block<12, 1>,
                                                     &Avx512Block<13, 1>,
                                                     &Avx512Block<14, 1>};
  static constexpr BlockFunction kAvx512One[] = {nullptr,
                                                 &Avx512Block<1, 1>,
                                                 &Avx512Block<2, 1>,
                                                 &Avx512Block<3, 1>,
                                                 &Avx512Block<4, 1>,
                                                 &Avx512Block<5, 1>,
                                                 &Avx512Block<6, 1>,
                                                 &Avx512Block<7, 1>,
                                                 &Avx512Block<8, 1>,
                                                 &Avx512Block<9, 1>,
                                                 &Avx512Block<10, 1>,
                                                 &Avx512Block<11, 1>,
                                                 &Avx512Block<12, 1>,
                                                 &Avx512Block<13, 1>,
                                                 &Avx512Block<14, 1>};
  static constexpr int kAvx2Strips[] = {0, 1, 1, 1, 1, 1, 1};
  static constexpr BlockFunction kAvx2One[] = {nullptr,          &Avx2Block<1, 4>, &Avx2Block<2, 4>,
                                               &Avx2Block<3, 4>, &Avx2Block<4, 2>, &Avx2Block<5, 2>,
                                               &Avx2Block<6, 2>};
  switch (isa) {
    case VectorIsa::kAvx512:
      return {14, kAvx512Strips, kAvx512Several, kAvx512One};
    case VectorIsa::kAvx2:
      return {6, kAvx2Strips, kAvx2One, kAvx2One};
    case VectorIsa::kPlain:
      break;
  }
#endif
  (void)isa;
  return {1, kPlainStrips, kPlainOne, kPlainOne};
}

// One strip whose last columns do not exist: computed beside the output.
void PartialStrip(BlockFunction function, int rows, int64_t columns, Block block) {
  constexpr int64_t kMostRows = 14;
  float out[kMostRows * kStripColumns] = {};
  float bias[kStripColumns] = {};
  if (block.bias != nullptr) {
    std::copy(block.bias, block.bias + columns, bias);
    block.bias = bias;
  }
  float* const target = block.out;
  const int64_t stride = block.out_stride;
  for (int row = 0; block.from_output && row < rows; ++row) {
    std::copy(target + row * stride, target + row * stride + columns, out + row * kStripColumns);
  }
  block.out = out;
  block.out_stride = kStripColumns;
  function(block);
  for (int row = 0; row < rows; ++row) {
    std::copy(out + row * kStripColumns, out + row * kStripColumns + columns,
              target + row * stride);
  }
}

}  // namespace

void MultiplyStrips(VectorIsa isa, ConstMatrix<float> a, const float* strips,
                    const ProductStart& start, Matrix<float> out) {
  const Kernels kernels = KernelsFor(isa);
  // Blocks of nearly equal height, so that the last is not a thin one.
  const int64_t blocks = (a.rows + kernels.most_rows - 1) / kernels.most_rows;
  const int64_t height = blocks == 0 ? 1 : (a.rows + blocks - 1) / blocks;
  const int64_t depth = a.columns;
  const int64_t whole = out.columns / kStripColumns;
  const int at_once = kernels.strips[height];
  for (int64_t strip = 0; strip * kStripColumns < out.columns;) {
    const int64_t count = strip + at_once <= whole ? at_once : 1;
    for (int64_t row = 0; row < a.rows;) {
      const auto rows = static_cast<int>(std::min(height, a.rows - row));
      const int64_t column = strip * kStripColumns;
      const Block block{a.row(row),
                        a.stride,
                        depth,
                        strips + column * depth,
                        start.bias == nullptr ? nullptr : start.bias + column,
                        start.from_output,
                        out.row(row) + column,
                        out.stride};
      if (strip >= whole) {
        PartialStrip(kernels.one[rows], rows, out.columns - column, block);
      } else if (count == kernels.strips[rows]) {
        kernels.several[rows](block);
      } else {
        // The last rows are fewer and would take more strips at once.
        for (int64_t i = 0; i < count; ++i) {
          Block single = block;
          single.strips += i * depth * kStripColumns;
          single.bias = block.bias == nullptr ? nullptr : block.bias + i * kStripColumns;
          single.out += i * kStripColumns;
          kernels.one[rows](single);
        }
      }
      row += rows;
    }
    strip += count;
  }
}

}  // namespace beamwright::ops
