#include "ops/kernels/broadcast_loop.h"

#include <algorithm>

namespace beamwright::ops {
namespace {

// Strides of an operand along the axes of the result.
Shape StridesOf(absl::Span<const int64_t> shape, size_t rank) {
  Shape strides(rank, 0);
  int64_t stride = 1;
  for (size_t i = 1; i <= shape.size(); ++i) {
    const int64_t dim = shape[shape.size() - i];
    strides[rank - i] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  return strides;
}

}  // namespace

BroadcastPlan::BroadcastPlan(absl::Span<const int64_t> out,
                             absl::Span<const absl::Span<const int64_t>> shapes) {
  std::array<Shape, kMaxOperands> full;
  for (size_t k = 0; k < kMaxOperands; ++k) {
    full[k] = k < shapes.size() ? StridesOf(shapes[k], out.size()) : Shape(out.size(), 0);
  }
  // From the innermost axis outwards; reversed at the end.
  for (size_t axis = out.size(); axis-- > 0;) {
    if (out[axis] == 1) {
      continue;
    }
    bool merges = !dims.empty();
    for (size_t k = 0; k < kMaxOperands && merges; ++k) {
      merges = full[k][axis] == strides[k].back() * dims.back();
    }
    if (merges) {
      dims.back() *= out[axis];
      continue;
    }
    dims.push_back(out[axis]);
    for (size_t k = 0; k < kMaxOperands; ++k) {
      strides[k].push_back(full[k][axis]);
    }
  }
  if (dims.empty()) {
    dims.push_back(1);
    for (Shape& stride : strides) {
      stride.push_back(0);
    }
  }
  std::reverse(dims.begin(), dims.end());
  for (Shape& stride : strides) {
    std::reverse(stride.begin(), stride.end());
  }
}

void BroadcastPlan::ForEachRow(
    absl::FunctionRef<void(int64_t, int64_t, const PerOperand&, const PerOperand&)> row) const {
  const size_t inner = dims.size() - 1;
  PerOperand offsets{};
  PerOperand steps{};
  for (size_t k = 0; k < kMaxOperands; ++k) {
    steps[k] = strides[k][inner];
  }
  const int64_t total = NumElements(dims);
  Shape index(dims.size(), 0);
  for (int64_t done = 0; done < total; done += dims[inner]) {
    row(done, dims[inner], offsets, steps);
    for (size_t axis = inner; axis-- > 0;) {
      const bool carry = ++index[axis] == dims[axis];
      for (size_t k = 0; k < kMaxOperands; ++k) {
        offsets[k] += carry ? -strides[k][axis] * (dims[axis] - 1) : strides[k][axis];
      }
      if (!carry) {
        break;
      }
      index[axis] = 0;
    }
  }
}

}  // namespace beamwright::ops
