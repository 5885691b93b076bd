// Convolutions whose groups have one channel each: no product of matrices, so they are sums of a
// few taps. Two ways:
//
// - RunChannelLanes: many channels and few positions. A vector holds 16 channels.
// - AddTaps: sums of shifted rows with weights, for longer rows. A vector holds 16 positions.
//
// Both add the taps of an output in the same order with fused multiply-adds, so that which of them
// runs changes no bit.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/kernels/float_convolution.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {

// Channels are taken 16 at a time. 1. The filter is turned once for a run: [tap, channels]. 2. An
// item's 16 rows of positions become one row of 16 channels for each position, zeros where the
// window reaches into the padding. 3. Sums over the taps, up to 4 positions at once. 4. Results are
// turned back.

namespace {

constexpr int64_t kChannels = kSquare;
constexpr int64_t kMostOutputs = 32;
constexpr int64_t kMostTaps = 64;
constexpr int64_t kAtOnce = 4;  // positions whose sums are in registers

// [rows, columns], `stride` floats from row to row, as [columns, rows], `to_stride` apart.
void Turn(VectorIsa isa, const float* from, int64_t stride, int64_t rows, int64_t columns,
          float* to, int64_t to_stride) {
  const auto* const words = reinterpret_cast<const uint32_t*>(from);
  for (int64_t row = 0; row < rows; row += kSquare) {
    for (int64_t column = 0; column < columns; column += kSquare) {
      TurnSquare(isa, {words + row * stride + column, stride}, std::min(kSquare, rows - row),
                 std::min(kSquare, columns - column),
                 reinterpret_cast<uint32_t*>(to) + column * to_stride + row, to_stride);
    }
  }
}

// For 16 channels. from: [positions, 16], `step` floats from output to output and `dilation` from
// tap to tap; filter: [taps, 16], `pitch` floats apart; out: [count, 16].
struct Sums {
  const float* from;
  int64_t step;
  int64_t dilation;
  const float* filter;
  int64_t pitch;
  int64_t taps;
};

#if defined(__x86_64__)

template <int kCount>
BW_TARGET_AVX512 void AddBlock(const Sums& sums, const float* from, float* out) {
  __m512 totals[kCount];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    totals[i] = _mm512_setzero_ps();
  }
  for (int64_t tap = 0; tap < sums.taps; ++tap) {
    const __m512 weights = _mm512_loadu_ps(sums.filter + tap * sums.pitch);
    const float* const operands = from + tap * sums.dilation;
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      totals[i] = _mm512_fmadd_ps(weights, _mm512_loadu_ps(operands + i * sums.step), totals[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    _mm512_storeu_ps(out + i * kChannels, totals[i]);
  }
}

void AddTapsOfChannels(const Sums& sums, int64_t count, float* out) {
  int64_t x = 0;
  for (; x + kAtOnce <= count; x += kAtOnce) {
    AddBlock<kAtOnce>(sums, sums.from + x * sums.step, out + x * kChannels);
  }
  for (; x < count; ++x) {
    AddBlock<1>(sums, sums.from + x * sums.step, out + x * kChannels);
  }
}

#else

void AddTapsOfChannels(const Sums&, int64_t, float*) {}  // LanesAreChannels is false

#endif

struct Scratch {
  std::vector<float> rows;
  std::vector<float> results;
};
Scratch& OwnScratch() {
  static thread_local Scratch scratch;
  return scratch;
}

}  // namespace

bool LanesAreChannels(VectorIsa isa, const ConvolutionGeometry& geometry) {
  const auto is_absent = [](const WindowAxis& axis) {
    return axis.in == 1 && axis.kernel == 1 && axis.out == 1 && axis.pad_begin == 0;
  };
  const WindowAxis& axis = geometry.axes[2];
  return (isa == VectorIsa::kAvx512 || isa == VectorIsa::kAmx) && geometry.in_channels == 1 &&
         geometry.out_channels == 1 && geometry.groups >= kChannels / 2 &&
         is_absent(geometry.axes[0]) && is_absent(geometry.axes[1]) && axis.out <= kMostOutputs &&
         axis.kernel > 1 && axis.kernel <= kMostTaps;
}

void RunChannelLanes(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                     const float* filter, const float* in, float* out) {
  const VectorIsa isa = CurrentVectorIsa();
  const WindowAxis& axis = geometry.axes[2];
  const int64_t blocks = CeilDiv(geometry.groups, kChannels);
  const int64_t pitch = blocks * kChannels;
  std::vector<float> turned(static_cast<size_t>(axis.kernel * pitch));
  Turn(isa, filter, axis.kernel, geometry.groups, axis.kernel, turned.data(), pitch);
  const int64_t positions = (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
  const int64_t begin = std::min(axis.pad_begin, positions);
  const int64_t read = std::clamp<int64_t>(positions - begin, 0, axis.in);
  const int64_t work = items * pitch * (axis.out * axis.kernel + positions);
  ParallelFor(num_threads, items * blocks, work, [&](int64_t index) {
    const int64_t item = index / blocks;
    const int64_t first = index % blocks * kChannels;
    const int64_t channels = std::min(kChannels, geometry.groups - first);
    const int64_t row = item * geometry.groups + first;
    Scratch& scratch = OwnScratch();
    scratch.rows.resize(static_cast<size_t>(positions * kChannels));
    scratch.results.resize(static_cast<size_t>(axis.out * kChannels));
    float* const rows = scratch.rows.data();
    if (channels < kChannels) {  // lanes that nothing reads
      std::fill_n(rows, positions * kChannels, 0.0f);
    }
    std::fill_n(rows, begin * kChannels, 0.0f);
    Turn(isa, in + row * axis.in, axis.in, channels, read, rows + begin * kChannels, kChannels);
    std::fill(rows + (begin + read) * kChannels, rows + positions * kChannels, 0.0f);
    AddTapsOfChannels({rows, axis.stride * kChannels, axis.dilation * kChannels,
                       turned.data() + first, pitch, axis.kernel},
                      axis.out, scratch.results.data());
    Turn(isa, scratch.results.data(), kChannels, axis.out, channels, out + row * axis.out,
         axis.out);
  });
}

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
