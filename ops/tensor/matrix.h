// Two-dimensional views of memory that other objects own.
#ifndef BEAMWRIGHT_OPS_TENSOR_MATRIX_H_
#define BEAMWRIGHT_OPS_TENSOR_MATRIX_H_

#include <cstdint>

#include "absl/types/span.h"

namespace beamwright::ops {

// rows x columns elements; row r starts at data + r * stride.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;

  T* row(int64_t index) const { return data + index * stride; }
  absl::Span<T> row_span(int64_t index) const { return {row(index), static_cast<size_t>(columns)}; }
};

template <typename T>
using ConstMatrix = Matrix<const T>;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TENSOR_MATRIX_H_
