// Products of 8-bit integers with a matrix that is known at load: exact, wrapping at 32 bits. Both
// operands are widened to 16 bits with their zero points taken off, which any of them fits, and
// multiplied in pairs of the depth (as VPMADDWD does): no intermediate sum can saturate, so the
// order of the sums, and with it the instruction set, does not matter.
#ifndef BEAMWRIGHT_OPS_KERNELS_INTEGER_PRODUCT_H_
#define BEAMWRIGHT_OPS_KERNELS_INTEGER_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// An element of i8 or u8.
inline int32_t ByteAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kI8 ? tensor.data<int8_t>()[i] : tensor.data<uint8_t>()[i];
}

class PackedIntegers {
 public:
  // matrix [depth, columns] of i8 or u8; zero: of the same type, one element or one a column, or
  // null: 0. Packed; not kept.
  PackedIntegers(const Tensor& matrix, const Tensor* zero);

  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }
  // int16s from row to row of the left operand: the depth, rounded up to a whole pair.
  int64_t stride() const { return 2 * pairs_; }

  // out [rows, columns] = a * matrix. a [rows, stride()], its zero point taken off, 0 behind the
  // depth; each in [-255, 255].
  void Multiply(int num_threads, const int16_t* a, int64_t rows, int32_t* out) const;

 private:
  int64_t depth_;
  int64_t columns_;
  int64_t pairs_;
  std::vector<int16_t> strips_;  // [strips][pairs][16 columns][2]
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INTEGER_PRODUCT_H_
