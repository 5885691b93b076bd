// Products in 8-bit integers, exact in 32 bits (int8_strip_product.h has the layout). A block of
// rows by some strips keeps its sums in registers while the depth passes once, four elements at a
// time (a group):
//
//   VnniBlock    dpbusd: sums += four products of unsigned activations and signed weights, for 16
//                columns. Activations are 128 too large: sums start from -128 * (sum of the
//                column).
//   Avx2Block    maddubs saturates at 16 bits: activations are magnitudes, weights take their sign.
//   SumByTiles   AMX, for 8 rows and more: tiles of 16 rows by 16 columns (tile_product.h).
//   PlainBlock   The reference.
//
// 1. KernelsFor chooses the blocks by instruction set, ByteKernelsFor the blocks for bytes that may
//    be any (quantized graphs), which widen to 16 bits instead (Avx2Bytes).
// 2. SumByBlocks walks over strips and blocks of rows, and SumByTiles over tiles; each reports its
//    sums (StripSums).
// 3. MultiplyInt8Strips turns sums into f32 while they are in the cache (WriteBlock); SumByteStrips
//    hands them to its caller.
//
// Integer sums are exact: no order, block or instruction set changes a bit.
#include "ops/kernels/int8_strip_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ops/base/cpu.h"
#include "ops/kernels/math.h"
#include "ops/kernels/strip_prefetch.h"
#include "ops/kernels/tile_product.h"
#include "ops/kernels/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {
namespace {

constexpr float kSmallest = 1e-30f;

// x + this has x rounded to an integer in its last bits, for |x| < 2^22.
constexpr float kRounder = 12582912.0f;
constexpr uint32_t kRounderBits = 0x4b400000;

}  // namespace

float QuantizeRow(const float* row, int64_t depth, uint8_t* out) {
  // Magnitudes order as their bits do, NaN above infinity.
  int32_t largest_bits = 0;
  Vectorized([=, &largest_bits]() BW_ALWAYS_INLINE {
    int32_t largest = 0;
    for (int64_t i = 0; i < depth; ++i) {
      const int32_t bits = std::bit_cast<int32_t>(row[i]) & kMagnitudeBits;
      largest = bits > largest ? bits : largest;
    }
    largest_bits = largest;
  });
  const int64_t padded = (depth + kInt8Group - 1) / kInt8Group * kInt8Group;
  const auto largest = std::bit_cast<float>(largest_bits);
  if (largest_bits >= kInfinityBits || largest < kSmallest) {
    std::fill(out, out + padded, static_cast<uint8_t>(kInt8Zero));
    return largest_bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float factor = 127.0f / largest;
  Vectorized([=]() BW_ALWAYS_INLINE {
    // Bytes that are stored could be those of the captures, for all that the compiler knows: it
    // would load them again each time, and use no vectors.
    const float* const from = row;
    uint8_t* const to = out;
    const int64_t count = depth;
    const float times = factor;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(from[i] * times + kRounder);
      to[i] = static_cast<uint8_t>(bits - kRounderBits + kInt8Zero);
    }
  });
  std::fill(out + depth, out + padded, static_cast<uint8_t>(kInt8Zero));
  return largest / 127.0f;
}

namespace {

constexpr int64_t kLine = kStripColumns * kInt8Group;  // bytes of a strip for one group

// A block of rows and whole strips; sums: [rows, 32 * strips].
struct Block {
  const uint8_t* a;
  int64_t a_stride;
  int64_t groups;
  const int8_t* strips;
  const int32_t* offsets;
  int32_t* sums;
  NextStrips next;
  int64_t bytes_ahead;
};

using BlockFunction = void (*)(const Block&);

void PlainBlock(const Block& block) {
  int32_t sums[kStripColumns] = {};
  for (int64_t g = 0; g < block.groups; ++g) {
    const uint8_t* const a = block.a + g * kInt8Group;
    const int8_t* const line = block.strips + g * kLine;
    for (int64_t n = 0; n < kStripColumns; ++n) {
      for (int64_t i = 0; i < kInt8Group; ++i) {
        sums[n] += (int32_t{a[i]} - kInt8Zero) * int32_t{line[n * kInt8Group + i]};
      }
    }
  }
  std::copy(sums, sums + kStripColumns, block.sums);
}

#if defined(__x86_64__)

#define BW_TARGET_VNNI \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))

BW_ALWAYS_INLINE inline int32_t LoadGroup(const uint8_t* a) {
  int32_t group;
  std::memcpy(&group, a, sizeof(group));
  return group;
}

// kRows rows by kStrips strips, sums in registers: rows * strips * 2 of the 32 that there are.
template <int kRows, int kStrips>
BW_TARGET_VNNI void VnniBlock(const Block& block) {
  constexpr int kVectors = 2 * kStrips;
  const int64_t strip_size = block.groups * kLine;
  __m512i sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m512i start =
        _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(block.offsets + 16 * v));
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      sums[row][v] = start;
    }
  }
  const int8_t* weights = block.strips;
  [[maybe_unused]] const char* next = block.next.first;
  for (int64_t g = 0; g < block.groups; ++g, weights += kLine) {
    if constexpr (kRows >= kMinRowsToFetchNext) {
      _mm_prefetch(next, _MM_HINT_T1);
      next += block.next.step;
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm_prefetch(weights + (v / 2) * strip_size + 64 * (v % 2) + block.bytes_ahead, _MM_HINT_T0);
    }
    __m512i w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      w[v] = _mm512_load_si512(weights + (v / 2) * strip_size + 64 * (v % 2));
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const __m512i a =
          _mm512_set1_epi32(LoadGroup(block.a + row * block.a_stride + g * kInt8Group));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm512_dpbusd_epi32(sums[row][v], a, w[v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(block.sums + (row * kVectors + v) * 16, sums[row][v]);
    }
  }
}

// kRows rows by one strip, in 4 / kVectors passes of kVectors vectors of 8 columns.
template <int kRows, int kVectors>
BW_TARGET_AVX2 void Avx2Block(const Block& block) {
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i zero_point = _mm256_set1_epi8(static_cast<char>(kInt8Zero));
  for (int pass = 0; pass < 4 / kVectors; ++pass) {
    __m256i sums[kRows][kVectors];
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[row][v] = _mm256_setzero_si256();
      }
    }
    const int8_t* weights = block.strips + pass * kVectors * 32;
    for (int64_t g = 0; g < block.groups; ++g, weights += kLine) {
      __m256i w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        w[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights + 32 * v));
      }
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        const __m256i a = _mm256_xor_si256(
            _mm256_set1_epi32(LoadGroup(block.a + row * block.a_stride + g * kInt8Group)),
            zero_point);
        const __m256i magnitude = _mm256_abs_epi8(a);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(w[v], a));
          sums[row][v] = _mm256_add_epi32(sums[row][v], _mm256_madd_epi16(pairs, ones));
        }
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(block.sums + row * kStripColumns +
                                                       (pass * kVectors + v) * 8),
                            sums[row][v]);
      }
    }
  }
}

#endif

// The blocks of an instruction set, as in strip_product.cc: most rows, strips at once for each
// number of rows, and the functions for several strips and for one.
struct Kernels {
  int most_rows;
  const int* strips;
  const BlockFunction* several;
  const BlockFunction* one;
};

constexpr int64_t kMostSums = 14 * kStripColumns;  // of any block

Kernels KernelsFor(VectorIsa isa) {
  static constexpr int kPlainStrips[] = {0, 1};
  static constexpr BlockFunction kPlainOne[] = {nullptr, &PlainBlock};
#if defined(__x86_64__)
  static constexpr int kVnniStrips[] = {0, 4, 4, 4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1};
  static constexpr BlockFunction kVnniSeveral[] = {
      nullptr,           &VnniBlock<1, 4>,  &VnniBlock<2, 4>,  &VnniBlock<3, 4>,
      &VnniBlock<4, 3>,  &VnniBlock<5, 2>,  &VnniBlock<6, 2>,  &VnniBlock<7, 2>,
      &VnniBlock<8, 1>,  &VnniBlock<9, 1>,  &VnniBlock<10, 1>, &VnniBlock<11, 1>,
      &VnniBlock<12, 1>, &VnniBlock<13, 1>, &VnniBlock<14, 1>};
  static constexpr BlockFunction kVnniOne[] = {
      nullptr,           &VnniBlock<1, 1>,  &VnniBlock<2, 1>,  &VnniBlock<3, 1>,
      &VnniBlock<4, 1>,  &VnniBlock<5, 1>,  &VnniBlock<6, 1>,  &VnniBlock<7, 1>,
      &VnniBlock<8, 1>,  &VnniBlock<9, 1>,  &VnniBlock<10, 1>, &VnniBlock<11, 1>,
      &VnniBlock<12, 1>, &VnniBlock<13, 1>, &VnniBlock<14, 1>};
  static constexpr int kAvx2Strips[] = {0, 1, 1, 1, 1};
  static constexpr BlockFunction kAvx2One[] = {nullptr, &Avx2Block<1, 4>, &Avx2Block<2, 4>,
                                               &Avx2Block<3, 2>, &Avx2Block<4, 2>};
  if (isa >= VectorIsa::kAvx512 && HasInt8Products()) {
    return {14, kVnniStrips, kVnniSeveral, kVnniOne};
  }
  if (isa != VectorIsa::kPlain) {
    return {4, kAvx2Strips, kAvx2One, kAvx2One};
  }
#endif
  (void)isa;
  return {1, kPlainStrips, kPlainOne, kPlainOne};
}

// A block's results: out[row][n] = start + sums[row][n] * (scale of the row * scale of the column).
// sums: [rows, sums_stride]. The scales, and the start's bias, are those of the block.
void WriteBlock(const int32_t* sums, int64_t sums_stride, const float* row_scales,
                const float* column_scales, const ProductStart& start, Matrix<float> out) {
  const float* const bias = start.bias;
  const bool from_output = start.from_output;
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t row = 0; row < out.rows; ++row) {
      const int32_t* const from = sums + row * sums_stride;
      float* const to = out.row(row);
      const float scale = row_scales[row];
      for (int64_t n = 0; n < out.columns; ++n) {
        const float first = (bias == nullptr ? 0.0f : bias[n]) + (from_output ? to[n] : 0.0f);
        to[n] = first + static_cast<float>(from[n]) * (scale * column_scales[n]);
      }
    }
  });
}

// With fewer rows tiles stay half empty, and vectors are as fast or faster (docs/performance.md).
constexpr int64_t kMinTileRows = 8;

// Blocks of the product by tiles; reported as by SumByteStrips.
template <typename Tell>
void SumByTiles(const Int8Rows& a, const Int8Strips& strips, int64_t columns, const Tell& tell) {
  const int64_t groups = CeilDiv(a.depth, kInt8Group);
  alignas(64) int32_t from[2 * kStripColumns] = {};
  alignas(64) int32_t sums[kMostTileRows * kStripColumns];
  Tiles tiles;
  TileWalk(a.rows, columns, groups, strips.values).ForEach([&](const TileWalk::Item& item) {
    const int64_t column = item.strip * kStripColumns;
    const int64_t width = item.num_strips * kStripColumns;
    for (int64_t n = 0; strips.offsets != nullptr && n < width; ++n) {
      from[n] = -strips.offsets[column + n];
    }
    const int64_t stride = width * static_cast<int64_t>(sizeof(int32_t));
    tiles.MultiplyInt8({a.values + item.row * a.stride, a.stride, item.rows, groups,
                        strips.values + item.strip * groups * kLine, item.num_strips, from, 0, sums,
                        stride, item.next});
    tell(StripSums{item.row, item.rows, column, std::min(width, columns - column), sums, width});
  });
}

// The same by the blocks of `kernels`.
template <typename Tell>
void SumByBlocks(const Kernels& kernels, const Int8Rows& a, const Int8Strips& strips,
                 int64_t columns, const Tell& tell) {
  static constexpr int32_t kNoOffsets[4 * kStripColumns] = {};
  const int64_t groups = CeilDiv(a.depth, kInt8Group);
  // Blocks of nearly equal height, so that the last is not a thin one.
  const int64_t height = EvenTile(a.rows, kernels.most_rows);
  const int64_t blocks = CeilDiv(a.rows, height);
  const int64_t num_strips = CeilDiv(columns, kStripColumns);
  const int64_t at_once = strips.from_memory ? 1 : kernels.strips[height];
  alignas(64) int32_t sums[kMostSums];  // or each vector would lie in two lines
  for (int64_t strip = 0; strip < num_strips;) {
    const int64_t count = std::min(at_once, num_strips - strip);
    const int8_t* const next = strips.values + (strip + count) * groups * kLine;
    for (int64_t row = 0; row < a.rows; row += height) {
      const auto rows = static_cast<int>(std::min(height, a.rows - row));
      // At the right end, and for the last rows, which may be fewer, strip by strip.
      const bool together = count == kernels.strips[rows];
      const int64_t width = together ? count : 1;
      for (int64_t i = strip; i < strip + count; i += width) {
        const int64_t column = i * kStripColumns;
        (together ? kernels.several : kernels.one)[rows](
            {a.values + row * a.stride, a.stride, groups, strips.values + i * groups * kLine,
             strips.offsets == nullptr ? kNoOffsets : strips.offsets + column, sums,
             ShareOfNext(next, width * kLine, groups, row / height, blocks),
             BytesAhead(strips.from_memory, rows)});
        tell(StripSums{row, rows, column, std::min(width * kStripColumns, columns - column), sums,
                       width * kStripColumns});
      }
    }
    strip += count;
  }
}

// Whether AMX tiles are used; with few rows vectors are.
bool TakesTiles(VectorIsa isa, const Int8Rows& a) {
  return isa == VectorIsa::kAmx && a.rows >= kMinTileRows &&
         CeilDiv(a.depth, kInt8Group) >= kTileGroups && HasInt8Tiles();
}

// The reference for any bytes: one row by one strip, sums that wrap.
void PlainBytes(const Block& block) {
  uint32_t sums[kStripColumns] = {};
  for (int64_t g = 0; g < block.groups; ++g) {
    const uint8_t* const a = block.a + g * kInt8Group;
    const int8_t* const line = block.strips + g * kLine;
    for (int64_t n = 0; n < kStripColumns; ++n) {
      for (int64_t i = 0; i < kInt8Group; ++i) {
        sums[n] += static_cast<uint32_t>(int32_t{a[i]} * int32_t{line[n * kInt8Group + i]});
      }
    }
  }
  std::memcpy(block.sums, sums, sizeof(sums));
}

#if defined(__x86_64__)

// The same for kRows rows, in passes of 8 columns. Both sides are widened to 16 bits, so that pairs
// cannot saturate; a vector has 4 columns, and two sums of each.
template <int kRows>
BW_TARGET_AVX2 void Avx2Bytes(const Block& block) {
  for (int pass = 0; pass < 4; ++pass) {
    __m256i sums[kRows][2];
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      sums[row][0] = sums[row][1] = _mm256_setzero_si256();
    }
    const int8_t* weights = block.strips + pass * 32;
    for (int64_t g = 0; g < block.groups; ++g, weights += kLine) {
      const auto* const line = reinterpret_cast<const __m128i*>(weights);
      const __m256i low = _mm256_cvtepi8_epi16(_mm_load_si128(line));
      const __m256i high = _mm256_cvtepi8_epi16(_mm_load_si128(line + 1));
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        const __m256i a = _mm256_cvtepu8_epi16(
            _mm_set1_epi32(LoadGroup(block.a + row * block.a_stride + g * kInt8Group)));
        sums[row][0] = _mm256_add_epi32(sums[row][0], _mm256_madd_epi16(a, low));
        sums[row][1] = _mm256_add_epi32(sums[row][1], _mm256_madd_epi16(a, high));
      }
    }
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      // Sums of columns 0 1 4 5 and 2 3 6 7, put in order.
      const __m256i whole = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sums[row][0], sums[row][1]),
                                                     _MM_SHUFFLE(3, 1, 2, 0));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(block.sums + row * kStripColumns + pass * 8),
                          whole);
    }
  }
}

#endif

// For any bytes: the signed kernels of AVX2 and plain code need numbers in [-127, 127].
Kernels ByteKernelsFor(VectorIsa isa) {
  static constexpr int kOneStrip[] = {0, 1, 1, 1, 1};
  static constexpr BlockFunction kPlainOne[] = {nullptr, &PlainBytes};
#if defined(__x86_64__)
  static constexpr BlockFunction kAvx2One[] = {nullptr, &Avx2Bytes<1>, &Avx2Bytes<2>, &Avx2Bytes<3>,
                                               &Avx2Bytes<4>};
  if (isa >= VectorIsa::kAvx512 && HasInt8Products()) {
    return KernelsFor(isa);
  }
  if (isa != VectorIsa::kPlain) {
    return {4, kOneStrip, kAvx2One, kAvx2One};
  }
#endif
  (void)isa;
  return {1, kOneStrip, kPlainOne, kPlainOne};
}

}  // namespace

void MultiplyInt8Strips(VectorIsa isa, const Int8Rows& a, const Int8Strips& strips,
                        const ProductStart& start, Matrix<float> out) {
  const auto write = [&](const StripSums& block) {
    WriteBlock(block.sums, block.stride, a.scales + block.row, strips.scales + block.column,
               {start.bias == nullptr ? nullptr : start.bias + block.column, start.from_output},
               {out.row(block.row) + block.column, block.rows, block.columns, out.stride});
  };
  if (TakesTiles(isa, a)) {
    SumByTiles(a, strips, out.columns, write);
  } else {
    SumByBlocks(KernelsFor(isa), a, strips, out.columns, write);
  }
}

void SumByteStrips(VectorIsa isa, const Int8Rows& a, const int8_t* strips, int64_t columns,
                   absl::FunctionRef<void(const StripSums&)> tell) {
  const Int8Strips values{strips, nullptr, nullptr};
  if (TakesTiles(isa, a)) {
    SumByTiles(a, values, columns, tell);
  } else {
    SumByBlocks(ByteKernelsFor(isa), a, values, columns, tell);
  }
}

}  // namespace beamwright::ops
