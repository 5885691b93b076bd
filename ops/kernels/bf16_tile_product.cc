// Products of matrices in bf16 with sums in f32, in pairs of elements as AMX takes them
// (MultiplyBf16Tiles): by AMX tiles (MultiplyByTiles), or by vectors with the same bits
// (MultiplyPlainly).
//
// AMX sums the first and the second elements of pairs separately within a group of kTileGroups
// pairs, adds both, and adds that to the sum so far; subnormal numbers count as zero. RowOfStrip
// does exactly this, so that a machine without AMX gives the same answers.
//
// Sums start from a bias, from what `out` holds, or both (FillStart). Tiles read their start from
// `out` itself, and write to it, where they fit; tiles that are wider than what is left of `out` go
// through the buffer `sums`.
#include "ops/kernels/bf16_tile_product.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/base/check.h"
#include "ops/base/cpu.h"
#include "ops/kernels/subnormals.h"
#include "ops/kernels/tile_product.h"

namespace beamwright::ops {
namespace {

// Fills to[0, width) with what the sums of a row start from. Without a bias that is `out` itself,
// to the sign of a zero: tiles may read it in its place.
void FillStart(const float* bias, const float* out, int64_t columns, int64_t width, float* to) {
  for (int64_t n = 0; n < columns; ++n) {
    const float before = out == nullptr ? 0.0f : out[n];
    to[n] = bias == nullptr ? before : WithoutSubnormals(bias[n]) + WithoutSubnormals(before);
  }
  std::fill(to + columns, to + width, 0.0f);
}

// Vectors flush by themselves under ZeroForSubnormals; the C library's fma of plain loops need not.
template <bool kPlain>
BW_ALWAYS_INLINE inline float Flushed(float x) {
  return kPlain ? WithoutSubnormals(x) : x;
}

// Without AMX: a row of a strip. sums: [32], from the start to the result.
template <bool kPlain>
void RowOfStrip(const Bf16Pair* a, int64_t pairs, const Bf16Pair* strip, float* sums) {
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t begin = 0; begin < pairs; begin += kTileGroups) {
      float first[kStripColumns] = {};
      float second[kStripColumns] = {};
      for (int64_t k = begin; k < begin + kTileGroups; ++k) {
        const float a_first = FirstOf(a[k]);
        const float a_second = SecondOf(a[k]);
        const Bf16Pair* const line = strip + k * kStripColumns;
        for (int64_t n = 0; n < kStripColumns; ++n) {
          first[n] = Flushed<kPlain>(std::fma(a_first, FirstOf(line[n]), first[n]));
          second[n] = Flushed<kPlain>(std::fma(a_second, SecondOf(line[n]), second[n]));
        }
      }
      for (int64_t n = 0; n < kStripColumns; ++n) {
        sums[n] = Flushed<kPlain>(Flushed<kPlain>(sums[n]) + Flushed<kPlain>(first[n] + second[n]));
      }
    }
  });
}

void MultiplyPlainly(VectorIsa isa, ConstMatrix<Bf16Pair> a, const Bf16Pair* strips,
                     const ProductStart& start, Matrix<float> out) {
  for (int64_t column = 0; column < out.columns; column += kStripColumns) {
    const int64_t columns = std::min(kStripColumns, out.columns - column);
    const float* const bias = start.bias == nullptr ? nullptr : start.bias + column;
    for (int64_t row = 0; row < a.rows; ++row) {
      float* const to = out.row(row) + column;
      float sums[kStripColumns];
      FillStart(bias, start.from_output ? to : nullptr, columns, kStripColumns, sums);
      const auto function = isa == VectorIsa::kPlain ? &RowOfStrip<true> : &RowOfStrip<false>;
      function(a.row(row), a.columns, strips + column * a.columns, sums);
      std::copy(sums, sums + columns, to);
    }
  }
}

void MultiplyByTiles(ConstMatrix<Bf16Pair> a, const Bf16Pair* strips, const ProductStart& start,
                     Matrix<float> out) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  alignas(64) float sums[kMostTileRows * kStripColumns];
  Tiles tiles;
  TileWalk(a.rows, out.columns, a.columns, strips).ForEach([&](const TileWalk::Item& item) {
    const int64_t column = item.strip * kStripColumns;
    const int64_t width = item.num_strips * kStripColumns;
    const int64_t columns = std::min(width, out.columns - column);
    const float* const bias = start.bias == nullptr ? nullptr : start.bias + column;
    float* const to = out.row(item.row) + column;
    const bool whole = columns == width;
    const bool one_start = !start.from_output;
    const bool starts_in_place = start.from_output && bias == nullptr && whole;
    const int64_t starts = one_start ? 1 : starts_in_place ? 0 : item.rows;
    for (int64_t row = 0; row < starts; ++row) {
      FillStart(bias, one_start ? nullptr : to + row * out.stride, columns, width,
                sums + row * width);
    }
    tiles.MultiplyBf16({a.row(item.row), a.stride * kBytes, item.rows, a.columns,
                        strips + column * a.columns, item.num_strips, starts_in_place ? to : sums,
                        one_start         ? 0
                        : starts_in_place ? out.stride * kBytes
                                          : width * kBytes,
                        whole ? to : sums, (whole ? out.stride : width) * kBytes, item.next});
    for (int64_t row = 0; !whole && row < item.rows; ++row) {
      std::copy_n(sums + row * width, columns, to + row * out.stride);
    }
  });
}

}  // namespace

void MultiplyBf16Tiles(VectorIsa isa, ConstMatrix<Bf16Pair> a, const Bf16Pair* strips,
                       const ProductStart& start, Matrix<float> out) {
  BW_DCHECK(a.columns % kTileGroups == 0);
  const ZeroForSubnormals scope;
  if (isa == VectorIsa::kAmx && HasBf16Tiles()) {
    MultiplyByTiles(a, strips, start, out);
  } else {
    MultiplyPlainly(isa, a, strips, start, out);
  }
}

}  // namespace beamwright::ops
