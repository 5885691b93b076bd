// Products of a matrix of bytes with a packed matrix of bytes that is known at load. The
// instructions for such products multiply unsigned bytes of a by signed bytes of b. So both are
// brought into that form, and what this adds is taken off the sums:
//
//   sum (a - a0) (b - b0) = sum a b - a0 sum b - b0 (sum a - depth a0)
//
// 1. PackedIntegers (once): subtracts 128 from b if it is unsigned, packs strips of columns in
//    groups of four bytes along the depth, and keeps the sum and the zero point of each column.
// 2. UnsignedRows::Read (each run): flips the top bit of a if it is signed, which adds 128, pads
//    the depth to a multiple of four, and sums up the rows if some column has a zero point.
// 3. ForEachStretch shares out the columns among threads; SumByteStrips computes the sums of a
//    block of rows and columns.
// 4. WriteSums or WriteNumbers take off what the zero points add (TakeOffZeros) and write i32, or
//    floats scaled and with the bias and an addend, while the block is in the cache.
//
// Sums wrap around in 32 bits, in unsigned arithmetic, where that is defined; the result is exact
// if it fits into 32 bits.
#include "ops/kernels/integer_product.h"

#include <algorithm>

#include "ops/base/vector_isa.h"
#include "ops/kernels/int8_strip_product.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

constexpr int kShift = 128;                   // from signed to unsigned bytes
constexpr int64_t kPart = 8 * kStripColumns;  // columns that a thread takes

void CopyRow(const uint8_t* from, int64_t depth, bool is_signed, uint8_t* to) {
  const auto flip = static_cast<uint8_t>(is_signed ? kShift : 0);
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t k = 0; k < depth; ++k) {
      to[k] = static_cast<uint8_t>(from[k] ^ flip);
    }
  });
}

uint32_t SumOf(const uint8_t* bytes, int64_t count) {
  uint32_t sum = 0;
  Vectorized([=, &sum]() BW_ALWAYS_INLINE {
    uint32_t total = 0;
    for (int64_t k = 0; k < count; ++k) {
      total += bytes[k];
    }
    sum = total;
  });
  return sum;
}

// Takes off a sum what zero points add to it: the row's times the sum of the column, and, where
// columns have zero points, the column's times the sum of the row.
template <bool kColumnZeros>
BW_ALWAYS_INLINE inline int32_t TakeOffZeros(int32_t sum, uint32_t row_zero, uint32_t column_sum,
                                             uint32_t row_sum, uint32_t column_zero) {
  const uint32_t left = static_cast<uint32_t>(sum) - row_zero * column_sum;
  return static_cast<int32_t>(kColumnZeros ? left - row_sum * column_zero : left);
}

// A stretch of a row of sums, with the zero points and sums of its row and columns.
struct Stretch {
  const int32_t* sums;
  uint32_t row_zero;
  uint32_t row_sum;
  const uint32_t* column_sums;
  const uint32_t* column_zeros;
  int64_t count;
};

template <bool kColumnZeros>
BW_ALWAYS_INLINE inline void WriteSums(const Stretch& from, int32_t* __restrict out) {
  const int32_t* __restrict const sums = from.sums;
  const uint32_t* __restrict const column_sums = from.column_sums;
  const uint32_t* __restrict const column_zeros = from.column_zeros;
  for (int64_t n = 0; n < from.count; ++n) {
    out[n] = TakeOffZeros<kColumnZeros>(sums[n], from.row_zero, column_sums[n], from.row_sum,
                                        kColumnZeros ? column_zeros[n] : 0);
  }
}

// Where a stretch's numbers come from and go (SumScales); the addend may be null.
struct Scaling {
  float row_scale;
  const float* column_scales;
  const float* bias;
  const float* addend;
  float* out;
};

template <bool kColumnZeros, bool kAddend>
BW_ALWAYS_INLINE inline void WriteNumbers(const Stretch& from, const Scaling& scaling) {
  const int32_t* __restrict const sums = from.sums;
  const uint32_t* __restrict const column_sums = from.column_sums;
  const uint32_t* __restrict const column_zeros = from.column_zeros;
  const float* __restrict const scales = scaling.column_scales;
  const float* __restrict const bias = scaling.bias;
  const float* __restrict const addend = scaling.addend;
  float* __restrict const out = scaling.out;
  const auto write = [=](int64_t n) BW_ALWAYS_INLINE {
    const int32_t sum = TakeOffZeros<kColumnZeros>(
        sums[n], from.row_zero, column_sums[n], from.row_sum, kColumnZeros ? column_zeros[n] : 0);
    const float number = static_cast<float>(sum) * (scaling.row_scale * scales[n]) + bias[n];
    out[n] = kAddend ? number + addend[n] : number;
  };
  if (from.count == kStripColumns) {  // as nearly all are: a loop without a count
    for (int64_t n = 0; n < kStripColumns; ++n) {
      write(n);
    }
  } else {
    for (int64_t n = 0; n < from.count; ++n) {
      write(n);
    }
  }
}

}  // namespace

// Rows as the kernels read them, and what zero points make of their sums.
struct PackedIntegers::UnsignedRows {
  const uint8_t* bytes = nullptr;  // [rows, 4 * groups], zeros behind the depth
  std::vector<uint32_t> zeros;     // by row
  std::vector<uint32_t> sums;      // by row: sum a - depth a0, if a column has a zero point
  std::vector<uint8_t> copy;       // what `bytes` are where they are not a's own

  void Read(const Tensor& a, absl::Span<const int32_t> zeros_of_a, int64_t depth, int64_t stride,
            bool need_sums);
};

void PackedIntegers::UnsignedRows::Read(const Tensor& a, absl::Span<const int32_t> zeros_of_a,
                                        int64_t depth, int64_t stride, bool need_sums) {
  const bool is_signed = a.dtype() == DType::kI8;
  bytes = reinterpret_cast<const uint8_t*>(a.bytes());
  if (is_signed || stride != depth) {
    copy.assign(zeros_of_a.size() * static_cast<size_t>(stride), 0);
    for (size_t row = 0; row < zeros_of_a.size(); ++row) {
      CopyRow(bytes + static_cast<int64_t>(row) * depth, depth, is_signed,
              copy.data() + row * static_cast<size_t>(stride));
    }
    bytes = copy.data();
  }
  zeros.resize(zeros_of_a.size());
  sums.assign(zeros_of_a.size(), 0);
  for (size_t row = 0; row < zeros.size(); ++row) {
    zeros[row] = static_cast<uint32_t>(zeros_of_a[row] + (is_signed ? kShift : 0));
    if (need_sums) {
      sums[row] = SumOf(bytes + static_cast<int64_t>(row) * stride, depth) -
                  static_cast<uint32_t>(depth) * zeros[row];
    }
  }
}

PackedIntegers::PackedIntegers(const Tensor& matrix, const Tensor* zero)
    : depth_(matrix.dim(0)), columns_(matrix.dim(1)), groups_(CeilDiv(depth_, kInt8Group)) {
  const int64_t num_strips = CeilDiv(columns_, kStripColumns);
  const int32_t shift = matrix.dtype() == DType::kU8 ? kShift : 0;
  strips_ = Tensor(DType::kI8, {num_strips, groups_, kStripColumns, kInt8Group});
  auto* const to = strips_.mutable_data<int8_t>();
  std::fill_n(to, strips_.num_elements(), int8_t{0});
  column_sums_.assign(static_cast<size_t>(num_strips * kStripColumns), 0);
  column_zeros_.assign(column_sums_.size(), 0);
  for (int64_t n = 0; n < columns_; ++n) {
    uint32_t& column_zero = column_zeros_[static_cast<size_t>(n)];
    if (zero != nullptr) {
      column_zero = static_cast<uint32_t>(ByteAt(*zero, zero->num_elements() == 1 ? 0 : n));
    }
    column_zero -= static_cast<uint32_t>(shift);
    has_column_zeros_ = has_column_zeros_ || column_zero != 0;
  }
  for (int64_t k = 0; k < depth_; ++k) {
    for (int64_t n = 0; n < columns_; ++n) {
      const int32_t value = ByteAt(matrix, k * columns_ + n) - shift;
      const int64_t line = n / kStripColumns * groups_ + k / kInt8Group;
      to[(line * kStripColumns + n % kStripColumns) * kInt8Group + k % kInt8Group] =
          static_cast<int8_t>(value);
      column_sums_[static_cast<size_t>(n)] += static_cast<uint32_t>(value);
    }
  }
}

template <typename Write>
void PackedIntegers::ForEachStretch(int num_threads, const Tensor& a,
                                    absl::Span<const int32_t> zeros, const Write& write) const {
  if (zeros.empty()) {
    return;
  }
  static thread_local UnsignedRows own_rows;  // kept from run to run
  const int64_t stride = groups_ * kInt8Group;
  own_rows.Read(a, zeros, depth_, stride, has_column_zeros_);
  const UnsignedRows& rows = own_rows;  // of this thread, in every part
  const auto num_rows = static_cast<int64_t>(zeros.size());
  const VectorIsa isa = CurrentVectorIsa();
  const auto write_block = [&](const StripSums& block, int64_t first) {
    const uint32_t* const row_zeros = rows.zeros.data() + block.row;
    const uint32_t* const row_sums = rows.sums.data() + block.row;
    Vectorized([&]() BW_ALWAYS_INLINE {
      for (int64_t i = 0; i < block.rows; ++i) {
        for (int64_t n = 0; n < block.columns; n += kStripColumns) {
          const int64_t column = first + block.column + n;
          write(block.row + i, column,
                Stretch{block.sums + i * block.stride + n, row_zeros[i], row_sums[i],
                        column_sums_.data() + column, column_zeros_.data() + column,
                        std::min(kStripColumns, block.columns - n)});
        }
      }
    });
  };
  const auto multiply_part = [&](int64_t part) {
    const int64_t first = part * kPart;
    SumByteStrips(isa, {rows.bytes, stride, nullptr, num_rows, depth_},
                  strips_.data<int8_t>() + first * stride, std::min(kPart, columns_ - first),
                  [&](const StripSums& block) { write_block(block, first); });
  };
  ParallelFor(num_threads, CeilDiv(columns_, kPart), num_rows * depth_ * columns_ / 16,
              multiply_part);
}

void PackedIntegers::Multiply(int num_threads, const Tensor& a, absl::Span<const int32_t> zeros,
                              int32_t* out) const {
  const auto write = [=, this](int64_t row, int64_t column, const Stretch& stretch)
                         BW_ALWAYS_INLINE {
                           int32_t* const to = out + row * columns_ + column;
                           if (has_column_zeros_) {
                             WriteSums<true>(stretch, to);
                           } else {
                             WriteSums<false>(stretch, to);
                           }
                         };
  ForEachStretch(num_threads, a, zeros, write);
}

void PackedIntegers::Multiply(int num_threads, const Tensor& a, absl::Span<const int32_t> zeros,
                              const SumScales& scales, float* out) const {
  const auto write = [=, this](int64_t row, int64_t column,
                               const Stretch& stretch) BW_ALWAYS_INLINE {
    const int64_t place = row * columns_ + column;
    const Scaling scaling = {scales.rows[row], scales.columns + column, scales.bias + column,
                             scales.addend == nullptr ? nullptr : scales.addend + place,
                             out + place};
    if (has_column_zeros_) {
      scales.addend == nullptr ? WriteNumbers<true, false>(stretch, scaling)
                               : WriteNumbers<true, true>(stretch, scaling);
    } else {
      scales.addend == nullptr ? WriteNumbers<false, false>(stretch, scaling)
                               : WriteNumbers<false, true>(stretch, scaling);
    }
  };
  ForEachStretch(num_threads, a, zeros, write);
}

}  // namespace beamwright::ops
