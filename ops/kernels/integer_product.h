// Products of 8-bit integers with a matrix that is known at load: exact, wrapping at 32 bits, so
// the order of the sums, and with it the instruction set, does not matter.
//
// The matrix is stored as products of precision int8 read it (ops/kernels/int8_strip_product.h),
// whose kernels multiply unsigned rows by signed numbers; rows of i8 are 128 higher for that, a
// matrix of u8 128 lower, and zero points with them. These are taken off the sums:
//   sum (a - a0) (b - b0) = sum a b - a0 sum b - b0 (sum a - depth a0)
#ifndef BEAMWRIGHT_OPS_KERNELS_INTEGER_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_INTEGER_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// An element of i8 or u8.
inline int32_t ByteAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kI8 ? tensor.data<int8_t>()[i] : tensor.data<uint8_t>()[i];
}

// What makes numbers of sums: sum * (scale of the row * scale of the column) + bias + addend, each
// operation rounded to f32, in this order.
struct SumScales {
  const float* rows = nullptr;     // one a row
  const float* columns = nullptr;  // one a column
  const float* bias = nullptr;     // one a column; -0 without a bias, which changes no number
  const float* addend = nullptr;   // [rows, columns], or null
};

class PackedIntegers {
 public:
  // matrix [depth, columns] of i8 or u8; zero: of the same type, one element or one a column, or
  // null: 0. Packed; not kept.
  PackedIntegers(const Tensor& matrix, const Tensor* zero);

  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }

  // out [rows, columns] = (a - zeros) * (matrix - zero). a: i8 or u8, whose elements are [rows,
  // depth()]; zeros: one a row.
  void Multiply(int num_threads, const Tensor& a, absl::Span<const int32_t> zeros,
                int32_t* out) const;
  // The same sums as numbers. out overlaps none of what is read.
  void Multiply(int num_threads, const Tensor& a, absl::Span<const int32_t> zeros,
                const SumScales& scales, float* out) const;

 private:
  struct UnsignedRows;

  // Calls write(row, column, stretch) for each stretch of a row's sums, of a strip or what is left
  // of one, with the zero points that are to be taken off. On any thread.
  template <typename Write>
  void ForEachStretch(int num_threads, const Tensor& a, absl::Span<const int32_t> zeros,
                      const Write& write) const;

  int64_t depth_;
  int64_t columns_;
  int64_t groups_;  // of 4 of the depth, the last filled up with zeros
  Tensor strips_;   // [strips, groups, 32, 4] i8
  // By column: the sum of what is stored, and the zero point that belongs to it.
  std::vector<uint32_t> column_sums_;
  std::vector<uint32_t> column_zeros_;
  bool has_column_zeros_ = false;  // some are not 0
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INTEGER_PRODUCT_H_
