// Products by AMX, the matrix instructions of Intel's server CPUs. Eight tile registers of 16 rows
// of 64 bytes: four hold sums (16 x 16 floats or integers each), one or two hold rows of
// activations, the others take turns with the weights.
//
//   TDPBUSD     sums += unsigned bytes of A times signed bytes of B, four at a time
//   TDPBF16PS   sums += bf16 pairs
//
// Kernel<kInt8, row tiles, strips> is a block of 16 or 32 rows by 32 or 64 columns. Run loads the
// sums' start, multiplies tile by tile along the depth (Step), prefetches the next weights, and
// stores the sums. The last part of a depth that is no multiple of a tile is multiplied with zeros
// before it (Rest), so that the weights need no padding.
//
// Tiles configures the registers for a number of rows and releases them in its destructor: a thread
// that keeps them has a larger state at each context switch.
#include "ops/kernels/tile_product.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/base/check.h"
#include "ops/base/cpu.h"
#include "ops/kernels/subnormals.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright::ops {

#if defined(__x86_64__)

namespace {

constexpr int64_t kTileBytes = 64;  // of a row of a tile
constexpr int64_t kGroupBytes = 4;
constexpr int kFirstA = 4;  // tiles 0 to 3 hold sums

// The layout that LDTILECFG reads.
struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// In assembly: intrinsics need literal operands, and functions of another target.
template <int kTile>
BW_ALWAYS_INLINE inline void Load(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"
                   :
                   : "i"(kTile), "r"(from), "r"(stride)
                   : "memory");
}

template <int kTile>
BW_ALWAYS_INLINE inline void Store(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"
                   :
                   : "i"(kTile), "r"(to), "r"(stride)
                   : "memory");
}

template <bool kInt8, int kSum, int kA, int kB>
BW_ALWAYS_INLINE inline void MultiplyAdd() {
  if constexpr (kInt8) {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  } else {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }
}

// Calls f with 0 to kCount - 1 as constants.
template <int kCount, typename F>
BW_ALWAYS_INLINE inline void ForEach(const F& f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) BW_ALWAYS_INLINE {
    (f(std::integral_constant<int, kIndex>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// kRowTiles * kStrips is 1 or 2. Sums of row tile r and column tile c are tile r * kColumnTiles +
// c.
template <bool kInt8, int kRowTiles, int kStrips>
struct Kernel {
  static constexpr int kColumnTiles = 2 * kStrips;
  // Tiles of the weight take turns in what is left.
  static constexpr int kFirstB = kFirstA + kRowTiles;
  static constexpr int kNumB = 8 - kFirstB;

  // One tile of the depth. a: as TileBlock's; weights: by strip.
  BW_ALWAYS_INLINE static void Step(const char* a, int64_t a_stride, const char* weights,
                                    int64_t strip_size) {
    ForEach<kRowTiles>([&](auto r) BW_ALWAYS_INLINE {
      Load<kFirstA + r>(a + r * kRowsOfTile * a_stride, a_stride);
    });
    ForEach<kColumnTiles>([&](auto c) BW_ALWAYS_INLINE {
      constexpr int kB = kFirstB + c % kNumB;
      Load<kB>(weights + (c / 2) * strip_size + (c % 2) * kTileBytes, kTileLine);
      ForEach<kRowTiles>([&](auto r) BW_ALWAYS_INLINE {
        MultiplyAdd<kInt8, r * kColumnTiles + c, kFirstA + r, kB>();
      });
    });
  }

  static void Run(const TileBlock& block) {
    const auto* a = static_cast<const char*>(block.a);
    const auto* weights = static_cast<const char*>(block.strips);
    const auto* const start = static_cast<const char*>(block.start);
    auto* const sums = static_cast<char*>(block.sums);
    const int64_t strip_size = block.groups * kTileLine;
    ForEach<kRowTiles>([&](auto r) BW_ALWAYS_INLINE {
      ForEach<kColumnTiles>([&](auto c) BW_ALWAYS_INLINE {
        Load<r * kColumnTiles + c>(start + r * kRowsOfTile * block.start_stride + c * kTileBytes,
                                   block.start_stride);
      });
    });
    const char* next = block.next.first;
    int64_t group = 0;
    for (; group + kTileGroups <= block.groups; group += kTileGroups) {
      // Every other line: the hardware fetches them in pairs.
      for (int64_t i = 0; i < kTileGroups * block.next.step; i += 2 * kTileBytes) {
        _mm_prefetch(next + i, _MM_HINT_T1);
      }
      next += kTileGroups * block.next.step;
      Step(a, block.a_stride, weights, strip_size);
      a += kTileBytes;
      weights += kTileGroups * kTileLine;
    }
    if constexpr (kInt8) {
      if (group < block.groups) {
        Rest(block, a, block.groups - group, weights, strip_size);
      }
    }
    ForEach<kRowTiles>([&](auto r) BW_ALWAYS_INLINE {
      ForEach<kColumnTiles>([&](auto c) BW_ALWAYS_INLINE {
        Store<r * kColumnTiles + c>(sums + r * kRowsOfTile * block.sums_stride + c * kTileBytes,
                                    block.sums_stride);
      });
    });
  }

  // The last `groups` of the depth, less than a tile: the tile of weights that ends there, with
  // zeros for what was multiplied before.
  static void Rest(const TileBlock& block, const char* a, int64_t groups, const char* weights,
                   int64_t strip_size) {
    alignas(kTileBytes) char rest[kMostTileRows * kTileBytes] = {};
    const int64_t begin = kTileBytes - groups * kGroupBytes;
    for (int64_t row = 0; row < block.rows; ++row) {
      std::memcpy(rest + row * kTileBytes + begin, a + row * block.a_stride,
                  static_cast<size_t>(groups * kGroupBytes));
    }
    Step(rest, kTileBytes, weights - (kTileGroups - groups) * kTileLine, strip_size);
  }
};

template <bool kInt8>
void Multiply(const TileBlock& block) {
  if (block.rows > kRowsOfTile) {
    Kernel<kInt8, 2, 1>::Run(block);
  } else if (block.num_strips == 2) {
    Kernel<kInt8, 1, 2>::Run(block);
  } else {
    Kernel<kInt8, 1, 1>::Run(block);
  }
}

}  // namespace

Tiles::~Tiles() {
  if (rows_ != 0) {
    __asm__ volatile("tilerelease");
  }
}

void Tiles::Configure(int64_t rows) {
  if (rows == rows_) {
    return;
  }
  rows_ = rows;
  TileConfig config;
  const auto set = [&](int tile, int64_t tile_rows) {
    config.rows[tile] = static_cast<uint8_t>(tile_rows);
    config.row_bytes[tile] = kTileBytes;
  };
  const int64_t first = std::min(rows, kRowsOfTile);
  const int64_t second = rows - first;
  for (int sum = 0; sum < kFirstA; ++sum) {
    set(sum, second == 0 || sum < 2 ? first : second);
  }
  set(kFirstA, first);
  // With one tile of rows it is one of the weight.
  set(kFirstA + 1, second == 0 ? kTileGroups : second);
  set(kFirstA + 2, kTileGroups);
  set(kFirstA + 3, kTileGroups);
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

void Tiles::MultiplyInt8(const TileBlock& block) {
  BW_DCHECK(block.groups >= kTileGroups);
  Configure(block.rows);
  Multiply</*kInt8=*/true>(block);
}

void Tiles::MultiplyBf16(const TileBlock& block) {
  BW_DCHECK(block.groups % kTileGroups == 0);
  Configure(block.rows);
  Multiply</*kInt8=*/false>(block);
}

#else

Tiles::~Tiles() = default;
void Tiles::MultiplyInt8(const TileBlock&) { BW_CHECK(false); }
void Tiles::MultiplyBf16(const TileBlock&) { BW_CHECK(false); }

#endif

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
