// Tensors whose elements say where they were, and ways to go over them.
#ifndef BEAMWRIGHT_TESTS_OPS_KERNELS_INDEX_TENSORS_H_
#define BEAMWRIGHT_TESTS_OPS_KERNELS_INDEX_TENSORS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {

using Index = std::vector<int64_t>;

// Elements first, first + 1, ..., in row-major order.
inline Tensor Counting(const Shape& shape, int64_t first = 0) {
  Tensor result(DType::kI64, shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<int64_t>()[i] = first + i;
  }
  return result;
}

inline AttributeValue Text(const std::string& text) { return text; }

inline Tensor List(std::vector<int64_t> values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return I64({count}, std::move(values));
}

// The place of the element at `index` in row-major order.
inline int64_t OffsetOf(const Tensor& tensor, const Index& index) {
  int64_t offset = 0;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    offset = offset * tensor.dim(axis) + index[static_cast<size_t>(axis)];
  }
  return offset;
}

// Calls body with every index of a shape, in row-major order.
template <typename Body>
void ForEachIndex(const Shape& shape, Body body) {
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    Index index(shape.size());
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0;) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    body(index);
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_KERNELS_INDEX_TENSORS_H_
