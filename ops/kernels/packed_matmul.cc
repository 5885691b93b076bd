// A GEMM with a constant weight in three parts: packing at load, preparing the activations,
// multiplying panels.
//
// 1. Packing. The weight [depth, columns] is stored in strips of 32 columns, [strips, depth, 32],
//    so that a product reads memory in one direction. A cell, an element of a strip's line, is by
//    precision: an f32, a bf16 (Pack), a pair of bf16 of two neighbouring depths (PackPairs), or
//    four 8-bit integers of four depths (PackInt8, with a scale and an offset for each column).
//    Columns behind the last are zeros.
//
//   weight, transposed or not    strip 0            strip 1
//   k=0   w00 w01 .. w0n         w00 .. w0,31       w0,32 .. w0,63
//   k=1   w10 w11 .. w1n         w10 .. w1,31       w1,32 .. w1,63
//
// 2. Prepare. Activations are rounded to pairs of bf16 (PreparePairs) or quantized with a scale for
//    each row (PrepareInt8). f32 rows are used where they are, or copied to rows that are further
//    apart (PrepareSpread): rows at a distance of a multiple of 4 KiB share the sets of the first
//    cache and evict each other.
// 3. RunPanel multiplies some rows by some whole strips, by the kernel of the precision
//    (strip_product.h, tile_product.h, int8_strip_product.h). Run does that for all panels, on
//    several threads (packed_matmul.h).
//
// Pick makes the weight of some columns alone, by copying their cells: a product with it has the
// same bits.
#include "ops/kernels/packed_matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "ops/base/check.h"
#include "ops/base/memory.h"
#include "ops/kernels/int8_strip_product.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strip_prefetch.h"
#include "ops/kernels/strip_product.h"
#include "ops/kernels/tile_product.h"
#include "ops/kernels/tiles.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

// The work of an activation that is rounded, and of a byte of the weight. A core reads some 100
// GB/s from its caches: with 2, one row times 512 x 512 weights in 8 bits was shared, for a fifth
// more CPU time and no less time.
constexpr int64_t kWorkToPrepare = 8;
constexpr int64_t kWorkToRead = 1;

constexpr size_t kCacheLine = 64;

// Rows that lie a multiple of this apart share the sets of a first-level cache, whose sets hold few
// lines each: a block of more rows, read side by side, evicts its own lines before they are used
// up.
constexpr int64_t kCacheSpan = 4096;
constexpr int64_t kCacheWays = 8;

// Elements from row to row: `stride`, or a cache line more if rows would share sets.
template <typename Element>
int64_t SpreadStride(int64_t stride) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
  const bool share_sets = stride * kSize % kCacheSpan == 0;
  return stride + (share_sets ? static_cast<int64_t>(kCacheLine) / kSize : 0);
}

// Zeros, on huge pages where that pays: a product reads all of a weight, and a large one would miss
// the table of pages at every 4 KiB.
std::byte* AllocateZeros(size_t bytes) {
  const size_t rounded = std::max((bytes + kCacheLine - 1) / kCacheLine, size_t{1}) * kCacheLine;
  void* const memory = std::aligned_alloc(kCacheLine, rounded);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  WishHugePages(memory, bytes);
  std::memset(memory, 0, rounded);
  return static_cast<std::byte*>(memory);
}

int64_t NumStrips(int64_t columns) { return CeilDiv(columns, kStripColumns); }

int64_t NumGroups(int64_t depth) { return CeilDiv(depth, kInt8Group); }

bool HasPairs(Precision precision) {
  return precision == Precision::kBf16Dot || precision == Precision::kBf16Amx;
}

// Pairs of a column; bf16-amx: padded to whole tiles.
int64_t NumPairs(int64_t depth, Precision precision) {
  const int64_t pairs = CeilDiv(depth, 2);
  return precision == Precision::kBf16Amx ? CeilDiv(pairs, kTileGroups) * kTileGroups : pairs;
}

// Pairs from row to row of activations. Tiles read 32 rows side by side, more than blocks do: an
// odd number of cache lines from row to row spreads them over all sets.
int64_t PairStride(int64_t depth, Precision precision) {
  const int64_t pairs = NumPairs(depth, precision);
  const bool is_even = pairs / kTileGroups % 2 == 0;
  return precision == Precision::kBf16Amx && is_even ? pairs + kTileGroups
                                                     : SpreadStride<Bf16Pair>(pairs);
}

int64_t StripBytes(int64_t depth, Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return kStripColumns * depth * static_cast<int64_t>(sizeof(float));
    case Precision::kBf16:
      return kStripColumns * depth * static_cast<int64_t>(sizeof(Bf16));
    case Precision::kBf16Dot:
    case Precision::kBf16Amx:
      return kStripColumns * NumPairs(depth, precision) * static_cast<int64_t>(sizeof(Bf16Pair));
    case Precision::kInt8:
      break;
  }
  return kStripColumns * NumGroups(depth) * kInt8Group;
}

// The elements of a weight, by depth and column, however they lie.
struct Elements {
  Elements(ConstMatrix<float> weight, bool transposed)
      : data(weight.data),
        by_depth(transposed ? 1 : weight.stride),
        by_column(transposed ? weight.stride : 1) {}

  float At(int64_t k, int64_t n) const { return data[k * by_depth + n * by_column]; }

  const float* data;
  int64_t by_depth;
  int64_t by_column;
};

// Calls put(k, n) for all k below `depth` and n in [first, first + count): for a few k of all
// columns at a time, so that the lines which are read and written stay in the first cache.
template <typename Put>
void ForBlocks(int64_t depth, int64_t first, int64_t count, const Put& put) {
  constexpr int64_t kBlock = 16;
  for (int64_t from = 0; from < depth; from += kBlock) {
    const int64_t end = std::min(from + kBlock, depth);
    for (int64_t n = first; n < first + count; ++n) {
      for (int64_t k = from; k < end; ++k) {
        put(k, n);
      }
    }
  }
}

// The same for all columns, strip by strip.
template <typename Put>
void ForStrips(int64_t depth, int64_t columns, const Put& put) {
  for (int64_t first = 0; first < columns; first += kStripColumns) {
    ForBlocks(depth, first, std::min(kStripColumns, columns - first), put);
  }
}

// The largest magnitude; infinite or NaN if a value is.
float LargestMagnitude(const float* values, int64_t count) {
  uint32_t largest = 0;
  Vectorized([values, count, &largest]() BW_ALWAYS_INLINE {
    uint32_t most = 0;  // bits of magnitudes are in the order of these
    for (int64_t k = 0; k < count; ++k) {
      most = std::max(most, std::bit_cast<uint32_t>(values[k]) & 0x7fffffff);
    }
    largest = most;
  });
  return std::bit_cast<float>(largest);
}

// rounded[k]: values[k] * 127 / largest, to nearest, ties to even.
void RoundToInt8(const float* values, int64_t count, float largest, int8_t* rounded) {
  // A sum with this has the integer in its lowest bits.
  constexpr double kToInteger = 0x1.8p52;
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t k = 0; k < count; ++k) {
      const double scaled = 127.0 * double{values[k]} / double{largest};
      rounded[k] = static_cast<int8_t>(std::bit_cast<int64_t>(scaled + kToInteger));
    }
  });
}

}  // namespace

void PackedMatMul::Free::operator()(std::byte* memory) const {
  std::free(memory);
  CountHeld(-bytes);
}

PackedMatMul::PackedMatMul(int64_t depth, int64_t columns, Precision precision)
    : depth_(depth),
      columns_(columns),
      precision_(precision == Precision::kInt8 && depth_ > kMaxInt8Depth ? Precision::kF32
                                                                         : precision),
      num_bytes_(static_cast<size_t>(NumStrips(columns_) * StripBytes(depth_, precision_))),
      strips_(AllocateZeros(num_bytes_), Free{static_cast<int64_t>(num_bytes_)}) {
  CountHeld(static_cast<int64_t>(num_bytes_));
  if (precision_ == Precision::kInt8) {
    const auto padded = static_cast<size_t>(NumStrips(columns_) * kStripColumns);
    scales_.assign(padded, 0.0f);
    offsets_.assign(padded, 0);
  }
}

PackedMatMul::PackedMatMul(ConstMatrix<float> weight, bool transposed, Precision precision)
    : PackedMatMul(transposed ? weight.columns : weight.rows,
                   transposed ? weight.rows : weight.columns, precision) {
  if (precision_ == Precision::kInt8) {
    PackInt8(weight, transposed);
  } else if (HasPairs(precision_)) {
    PackPairs(weight, transposed);
  } else {
    Pack(weight, transposed);
  }
}

void PackedMatMul::Pack(ConstMatrix<float> weight, bool transposed) {
  const Elements from(weight, transposed);
  const auto line_of = [depth = depth_](int64_t k, int64_t n) {
    return (n / kStripColumns * depth + k) * kStripColumns;
  };
  if (precision_ == Precision::kBf16) {
    auto* const strips = reinterpret_cast<Bf16*>(strips_.get());
    ForStrips(depth_, columns_, [&](int64_t k, int64_t n) {
      strips[line_of(k, n) + Bf16Place(n % kStripColumns)] = RoundToBf16(from.At(k, n));
    });
  } else {
    auto* const strips = reinterpret_cast<float*>(strips_.get());
    ForStrips(depth_, columns_, [&](int64_t k, int64_t n) {
      strips[line_of(k, n) + n % kStripColumns] = from.At(k, n);
    });
  }
}

void PackedMatMul::PackPairs(ConstMatrix<float> weight, bool transposed) {
  const Elements from(weight, transposed);
  auto* const strips = reinterpret_cast<Bf16Pair*>(strips_.get());
  const int64_t pairs = NumPairs(depth_, precision_);
  ForStrips(CeilDiv(depth_, 2), columns_, [&](int64_t pair, int64_t n) {
    const int64_t k = 2 * pair;
    strips[(n / kStripColumns * pairs + pair) * kStripColumns + n % kStripColumns] =
        PairOf(from.At(k, n), k + 1 < depth_ ? from.At(k + 1, n) : 0.0f);
  });
}

void PackedMatMul::PackInt8(ConstMatrix<float> weight, bool transposed) {
  const Elements from(weight, transposed);
  std::vector<float> turned;  // the columns of a strip, if their elements are not side by side
  if (from.by_depth != 1) {
    turned.resize(static_cast<size_t>(kStripColumns * depth_));
  }
  std::vector<int8_t> rounded(static_cast<size_t>(NumGroups(depth_) * kInt8Group));
  for (int64_t n = 0; n < columns_; ++n) {
    const int64_t place = n % kStripColumns;
    // 1. The column's elements side by side; its scale from the largest of them.
    if (!turned.empty() && place == 0) {
      ForBlocks(depth_, n, std::min(kStripColumns, columns_ - n), [&](int64_t k, int64_t column) {
        turned[static_cast<size_t>((column - n) * depth_ + k)] = from.At(k, column);
      });
    }
    const float* const values =
        turned.empty() ? from.data + n * from.by_column : turned.data() + place * depth_;
    const float largest = LargestMagnitude(values, depth_);
    const auto at = static_cast<size_t>(n);
    if (!std::isfinite(largest)) {
      scales_[at] = std::numeric_limits<float>::quiet_NaN();  // no number would be right
      continue;
    }
    scales_[at] = largest / 127.0f;
    if (largest == 0) {
      continue;
    }
    // 2. The integers, and their sum: activations are unsigned, shifted by kInt8Zero, and the
    //    product takes that back.
    RoundToInt8(values, depth_, largest, rounded.data());
    offsets_[at] = kInt8Zero * std::accumulate(rounded.begin(), rounded.end(), 0);
    // 3. Four integers after each other are a cell in the lines of the strip.
    std::byte* const column =
        strips_.get() + n / kStripColumns * StripBytes(depth_, precision_) + place * kInt8Group;
    for (int64_t group = 0; group < NumGroups(depth_); ++group) {
      std::memcpy(column + group * kStripColumns * kInt8Group, rounded.data() + group * kInt8Group,
                  kInt8Group);
    }
  }
}

namespace {

// pairs: [stride], zeros behind the last.
void RoundToPairs(const float* row, int64_t depth, int64_t stride, Bf16Pair* pairs) {
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t k = 0; k < depth / 2; ++k) {
      pairs[k] = PairOf(row[2 * k], row[2 * k + 1]);
    }
  });
  if (depth % 2 == 1) {
    pairs[depth / 2] = PairOf(row[depth - 1], 0);
  }
  std::fill(pairs + CeilDiv(depth, 2), pairs + stride, Bf16Pair{0});
}

}  // namespace

PackedMatMul PackedMatMul::Pick(absl::Span<const int32_t> columns) const {
  PackedMatMul picked(depth_, static_cast<int64_t>(columns.size()), precision_);
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto column = static_cast<size_t>(columns[i]);
    BW_DCHECK(columns[i] >= 0 && columns[i] < columns_);
    if (precision_ == Precision::kBf16) {
      CopyColumn<Bf16>(columns[i], static_cast<int64_t>(i), picked);
    } else {
      CopyColumn<uint32_t>(columns[i], static_cast<int64_t>(i), picked);
    }
    if (precision_ == Precision::kInt8) {
      picked.scales_[i] = scales_[column];
      picked.offsets_[i] = offsets_[column];
    }
  }
  return picked;
}

void PackedMatMul::ReadColumn(int64_t column, absl::Span<int8_t> integers) const {
  BW_DCHECK(precision_ == Precision::kInt8 && column < columns_);
  const auto* const cells = reinterpret_cast<const int8_t*>(strips_.get()) +
                            column / kStripColumns * StripBytes(depth_, precision_) +
                            column % kStripColumns * kInt8Group;
  for (int64_t k = 0; k < depth_; ++k) {
    integers[static_cast<size_t>(k)] =
        cells[k / kInt8Group * kStripColumns * kInt8Group + k % kInt8Group];
  }
}

// A column has a cell in each line of its strip: an f32, a bf16, a pair of bf16 or four i8.
template <typename Cell>
void PackedMatMul::CopyColumn(int64_t from, int64_t to, PackedMatMul& picked) const {
  constexpr int64_t kLine = kStripColumns * int64_t{sizeof(Cell)};
  const int64_t strip = StripBytes(depth_, precision_);
  const auto cells_of = [&](const PackedMatMul& weight, int64_t n) {
    const int64_t column = n % kStripColumns;
    const int64_t place = precision_ == Precision::kBf16 ? Bf16Place(column) : column;
    return weight.strips_.get() + n / kStripColumns * strip + place * int64_t{sizeof(Cell)};
  };
  const std::byte* const source = cells_of(*this, from);
  std::byte* const target = cells_of(picked, to);
  for (int64_t at = 0; at < strip; at += kLine) {
    std::memcpy(target + at, source + at, sizeof(Cell));
  }
}

void PackedMatMul::Prepare(int num_threads, ConstMatrix<float> a, Activations& activations) const {
  activations.rows = a;
  if (HasPairs(precision_)) {
    PreparePairs(num_threads, a, activations);
  } else if (precision_ == Precision::kInt8) {
    PrepareInt8(num_threads, a, activations);
  } else if (a.rows > kCacheWays && SpreadStride<float>(a.stride) != a.stride) {
    PrepareSpread(num_threads, a, activations);
  }
}

void PackedMatMul::PrepareSpread(int num_threads, ConstMatrix<float> a,
                                 Activations& activations) const {
  const int64_t stride = SpreadStride<float>(depth_);
  activations.spread.resize(
      std::max(activations.spread.size(), static_cast<size_t>(a.rows * stride)));
  float* const spread = activations.spread.data();
  ParallelFor(num_threads, a.rows, a.rows * depth_,
              [&](int64_t row) { std::copy_n(a.row(row), depth_, spread + row * stride); });
  activations.rows = {spread, a.rows, depth_, stride};
}

void PackedMatMul::PreparePairs(int num_threads, ConstMatrix<float> a,
                                Activations& activations) const {
  const int64_t stride = PairStride(depth_, precision_);
  activations.stride = stride;
  activations.pairs.resize(
      std::max(activations.pairs.size(), static_cast<size_t>(a.rows * stride)));
  Bf16Pair* const pairs = activations.pairs.data();
  ParallelFor(num_threads, a.rows, a.rows * depth_ * kWorkToPrepare,
              [&](int64_t row) { RoundToPairs(a.row(row), depth_, stride, pairs + row * stride); });
}

void PackedMatMul::PrepareInt8(int num_threads, ConstMatrix<float> a,
                               Activations& activations) const {
  const int64_t stride = SpreadStride<uint8_t>(NumGroups(depth_) * kInt8Group);
  const auto bytes = static_cast<size_t>(a.rows * stride);
  const auto rows = static_cast<size_t>(a.rows);
  activations.stride = stride;
  activations.quantized.resize(std::max(activations.quantized.size(), bytes));
  activations.scales.resize(std::max(activations.scales.size(), rows));
  uint8_t* const quantized = activations.quantized.data();
  float* const scales = activations.scales.data();
  ParallelFor(num_threads, a.rows, a.rows * depth_ * kWorkToPrepare, [&](int64_t row) {
    scales[row] = QuantizeRow(a.row(row), a.columns, quantized + row * stride);
  });
}

void PackedMatMul::RunPanel(const Activations& activations, int64_t first_row, int64_t first_column,
                            const Start& start, Matrix<float> out) const {
  BW_DCHECK(first_column % kStripColumns == 0 && first_column + out.columns <= columns_);
  BW_DCHECK(first_row + out.rows <= activations.rows.rows);
  const VectorIsa isa = CurrentVectorIsa();
  const ProductStart from{start.bias.empty() ? nullptr : start.bias.data() + first_column,
                          start.from_output};
  const ConstMatrix<float> rows{activations.rows.row(first_row), out.rows, depth_,
                                activations.rows.stride};
  const auto pairs = [&] {
    return ConstMatrix<Bf16Pair>{activations.pairs.data() + first_row * activations.stride,
                                 out.rows, NumPairs(depth_, precision_), activations.stride};
  };
  // bf16 without pairs is bound by the arithmetic of widening, not by memory.
  const bool from_memory =
      precision_ != Precision::kBf16 && static_cast<int64_t>(num_bytes_) >= kMinBytesFromMemory;
  const std::byte* const strips =
      strips_.get() +
      static_cast<size_t>(first_column / kStripColumns * StripBytes(depth_, precision_));
  switch (precision_) {
    case Precision::kF32:
      return MultiplyStrips(isa, rows, reinterpret_cast<const float*>(strips), from_memory, from,
                            out);
    case Precision::kBf16:
      return MultiplyStrips(isa, rows, reinterpret_cast<const Bf16*>(strips), from_memory, from,
                            out);
    case Precision::kBf16Dot:
      return MultiplyStrips(isa, pairs(), reinterpret_cast<const Bf16Pair*>(strips), from_memory,
                            from, out);
    case Precision::kBf16Amx:
      return MultiplyBf16Tiles(isa, pairs(), reinterpret_cast<const Bf16Pair*>(strips), from, out);
    case Precision::kInt8:
      return MultiplyInt8Strips(
          isa,
          {activations.quantized.data() + first_row * activations.stride, activations.stride,
           activations.scales.data() + first_row, out.rows, depth_},
          {reinterpret_cast<const int8_t*>(strips), scales_.data() + first_column,
           offsets_.data() + first_column, from_memory},
          from, out);
  }
}

int64_t PackedMatMul::Work(int64_t rows) const {
  // How many multiply-adds take as long as one of f32, with more than a few rows.
  const bool has_tiles = CurrentVectorIsa() == VectorIsa::kAmx;
  int64_t speed = 1;
  if (precision_ == Precision::kInt8) {
    speed = has_tiles ? 6 : 4;
  } else if (precision_ == Precision::kBf16Amx) {
    speed = has_tiles ? 4 : 1;
  }
  return std::max(rows * depth_ * columns_ / speed, static_cast<int64_t>(num_bytes_) * kWorkToRead);
}

void PackedMatMul::Run(int num_threads, ConstMatrix<float> a, const Start& start,
                       Matrix<float> out) const {
  RunByPanels(*this, num_threads, a, start, out, [](int64_t, Matrix<float>) {});
}

}  // namespace beamwright::ops
