#include "ops/kernels/integer_product.h"

#include <algorithm>
#include <cstring>

#include "ops/base/vector_isa.h"
#include "ops/kernels/int8_strip_product.h"
#include "ops/kernels/parallel.h"

namespace beamwright::ops {
namespace {

constexpr int kShift = 128;  // from signed to unsigned bytes

// Rows as the kernels read them, and what zero points make of their sums.
struct UnsignedRows {
  std::vector<uint8_t> bytes;   // [rows, 4 * groups], zeros behind the depth
  std::vector<uint32_t> zeros;  // by row
  std::vector<uint32_t> sums;   // by row: sum a - depth a0
};

void ReadRow(const Tensor& a, int64_t row, int64_t depth, uint8_t* to) {
  const auto* const from = reinterpret_cast<const uint8_t*>(a.bytes()) + row * depth;
  const auto flip = static_cast<uint8_t>(a.dtype() == DType::kI8 ? kShift : 0);
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

void ReadRows(const Tensor& a, absl::Span<const int32_t> zeros, int64_t depth, int64_t stride,
              UnsignedRows& rows) {
  rows.bytes.assign(zeros.size() * static_cast<size_t>(stride), 0);
  rows.zeros.resize(zeros.size());
  rows.sums.resize(zeros.size());
  for (size_t row = 0; row < zeros.size(); ++row) {
    uint8_t* const to = rows.bytes.data() + row * static_cast<size_t>(stride);
    ReadRow(a, static_cast<int64_t>(row), depth, to);
    rows.zeros[row] = static_cast<uint32_t>(zeros[row] + (a.dtype() == DType::kI8 ? kShift : 0));
    rows.sums[row] = SumOf(to, depth) - static_cast<uint32_t>(depth) * rows.zeros[row];
  }
}

}  // namespace

PackedIntegers::PackedIntegers(const Tensor& matrix, const Tensor* zero)
    : depth_(matrix.dim(0)),
      columns_(matrix.dim(1)),
      groups_((depth_ + kInt8Group - 1) / kInt8Group) {
  const int64_t num_strips = (columns_ + kStripColumns - 1) / kStripColumns;
  const int32_t shift = matrix.dtype() == DType::kU8 ? kShift : 0;
  strips_ = Tensor(DType::kI8, {num_strips, groups_, kStripColumns, kInt8Group});
  auto* const to = strips_.mutable_data<int8_t>();
  std::fill_n(to, strips_.num_elements(), int8_t{0});
  column_sums_.assign(static_cast<size_t>(num_strips * kStripColumns), 0);
  column_zeros_.assign(column_sums_.size(), 0);
  for (int64_t n = 0; n < columns_; ++n) {
    if (zero != nullptr) {
      column_zeros_[static_cast<size_t>(n)] =
          static_cast<uint32_t>(ByteAt(*zero, zero->num_elements() == 1 ? 0 : n));
    }
    column_zeros_[static_cast<size_t>(n)] -= static_cast<uint32_t>(shift);
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

void PackedIntegers::Multiply(int num_threads, const Tensor& a, absl::Span<const int32_t> zeros,
                              int32_t* out) const {
  if (zeros.empty()) {
    return;
  }
  static thread_local UnsignedRows rows;  // kept from run to run
  const int64_t stride = groups_ * kInt8Group;
  ReadRows(a, zeros, depth_, stride, rows);
  const auto num_rows = static_cast<int64_t>(zeros.size());
  const VectorIsa isa = CurrentVectorIsa();
  constexpr int64_t kPart = 8 * kStripColumns;  // columns that a thread takes
  const UnsignedRows* const read = &rows;       // of this thread, in every part
  ParallelFor(num_threads, (columns_ + kPart - 1) / kPart, num_rows * depth_ * columns_ / 16,
              [&, read](int64_t part) {
                const int64_t first = part * kPart;
                const int64_t columns = std::min(kPart, columns_ - first);
                SumByteStrips(
                    isa, {read->bytes.data(), stride, nullptr, num_rows, depth_},
                    strips_.data<int8_t>() + first * stride, columns, [&](const StripSums& block) {
                      const auto column = static_cast<size_t>(first + block.column);
                      const uint32_t* const sums_of_columns = column_sums_.data() + column;
                      const uint32_t* const zeros_of_columns = column_zeros_.data() + column;
                      Vectorized([&]() BW_ALWAYS_INLINE {
                        for (int64_t row = 0; row < block.rows; ++row) {
                          const auto of = static_cast<size_t>(block.row + row);
                          const uint32_t zero = read->zeros[of];
                          const uint32_t sum = read->sums[of];
                          const int32_t* const from = block.sums + row * block.stride;
                          int32_t* const to =
                              out + static_cast<int64_t>(of) * columns_ + first + block.column;
                          for (int64_t n = 0; n < block.columns; ++n) {
                            to[n] = static_cast<int32_t>(static_cast<uint32_t>(from[n]) -
                                                         zero * sums_of_columns[n] -
                                                         sum * zeros_of_columns[n]);
                          }
                        }
                      });
                    });
              });
}

}  // namespace beamwright::ops
