// Sums of shifted rows with weights (AddTaps): out[y][x] is the sum over taps of weights[tap] *
// from[offsets[tap] + y * row_step + x].
//
// Outputs are computed in blocks of several rows and up to 64 columns, whose sums stay in registers
// for all taps (Avx512Block, Avx2Block; PlainBlock has one row of 16). BlocksFor lists the shapes
// that the registers hold: wide blocks have few rows. AddTaps goes over columns, then rows, and
// takes the tallest block that fits what is left. Where fewer columns are left than the block has,
// the block goes to a buffer, from which the valid columns are copied.
//
// Each output is one chain of fused multiply-adds in the order of the taps, so that it has the same
// bits in a block of any shape.
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
struct Block {
  const float* from;
  float* out;
  int64_t out_step;  // from row to row
};
using BlockFunction = void (*)(const Taps& taps, const Block& block);

constexpr int64_t kOutputs = 16;  // of a block's row are computed together

void PlainBlock(const Taps& taps, const Block& block) {
  float sums[kOutputs] = {};
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const float weight = taps.weights[tap];
    const float* const operands = block.from + taps.offsets[tap];
    for (int64_t x = 0; x < kOutputs; ++x) {
      sums[x] = std::fma(weight, operands[x], sums[x]);
    }
  }
  std::copy(sums, sums + kOutputs, block.out);
}

#if defined(__x86_64__)

template <int kRows, int kVectors>
BW_TARGET_AVX512 void Avx512Block(const Taps& taps, const Block& block) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[row][v] = _mm512_setzero_ps();
    }
  }
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const __m512 weight = _mm512_set1_ps(taps.weights[tap]);
    const float* const operands = block.from + taps.offsets[tap];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm512_fmadd_ps(
            weight, _mm512_loadu_ps(operands + row * taps.row_step + 16 * v), sums[row][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(block.out + row * block.out_step + 16 * v, sums[row][v]);
    }
  }
}

template <int kRows, int kVectors>
BW_TARGET_AVX2 void Avx2Block(const Taps& taps, const Block& block) {
  __m256 sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[row][v] = _mm256_setzero_ps();
    }
  }
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    const __m256 weight = _mm256_broadcast_ss(taps.weights + tap);
    const float* const operands = block.from + taps.offsets[tap];
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm256_fmadd_ps(
            weight, _mm256_loadu_ps(operands + row * taps.row_step + 8 * v), sums[row][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_ps(block.out + row * block.out_step + 8 * v, sums[row][v]);
    }
  }
}

#endif

constexpr int kMostRows = 8;
constexpr int64_t kMostWidth = 4;  // times kOutputs

// Blocks by width, in kOutputs, and by the number of rows: 1, 2, 4 and 8, where registers suffice.
struct Blocks {
  int64_t most;  // the widest
  BlockFunction functions[kMostWidth + 1][4];
};

const Blocks& BlocksFor(VectorIsa isa) {
  static constexpr Blocks kPlain = {1, {{}, {&PlainBlock}}};
#if defined(__x86_64__)
  static constexpr Blocks kAvx512 = {
      4,
      {{},
       {&Avx512Block<1, 1>, &Avx512Block<2, 1>, &Avx512Block<4, 1>, &Avx512Block<8, 1>},
       {&Avx512Block<1, 2>, &Avx512Block<2, 2>, &Avx512Block<4, 2>},
       {&Avx512Block<1, 3>, &Avx512Block<2, 3>, &Avx512Block<4, 3>},
       {&Avx512Block<1, 4>, &Avx512Block<2, 4>}}};
  static constexpr Blocks kAvx2 = {4,
                                   {{},
                                    {&Avx2Block<1, 2>, &Avx2Block<2, 2>, &Avx2Block<4, 2>},
                                    {&Avx2Block<1, 4>, &Avx2Block<2, 4>},
                                    {&Avx2Block<1, 6>, &Avx2Block<2, 6>},
                                    {&Avx2Block<1, 8>}}};
  switch (isa) {
    case VectorIsa::kAmx:
    case VectorIsa::kAvx512:
      return kAvx512;
    case VectorIsa::kAvx2:
      return kAvx2;
    case VectorIsa::kPlain:
      break;
  }
#endif
  (void)isa;
  return kPlain;
}

}  // namespace

void AddTaps(VectorIsa isa, const Taps& taps, const float* from, int64_t height, int64_t width,
             float* out) {
  const Blocks& blocks = BlocksFor(isa);
  for (int64_t x = 0; x < width;) {
    const int64_t count = std::min(blocks.most, CeilDiv(width - x, kOutputs));
    const int64_t outputs = std::min(count * kOutputs, width - x);
    for (int64_t y = 0; y < height;) {
      int rows = kMostRows;
      int size = 3;  // its logarithm
      while (rows > height - y || blocks.functions[count][size] == nullptr) {
        rows /= 2;
        --size;
      }
      const BlockFunction function = blocks.functions[count][size];
      const float* const operands = from + y * taps.row_step + x;
      float* const to = out + y * width + x;
      if (outputs == count * kOutputs) {
        function(taps, {operands, to, width});
      } else {
        constexpr int64_t kWhole = kMostWidth * kOutputs;
        float whole[kMostRows * kWhole];
        function(taps, {operands, whole, kWhole});
        for (int row = 0; row < rows; ++row) {
          std::copy(whole + row * kWhole, whole + row * kWhole + outputs, to + row * width);
        }
      }
      y += rows;
    }
    x += outputs;
  }
}

}  // namespace beamwright::ops
