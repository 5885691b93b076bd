// Offsets of elements that a kernel visits in a special order: one list per group of axes,
// added up by the caller, instead of nested loops over a rank that is not known.
#ifndef BEAMWRIGHT_OPS_KERNELS_OFFSETS_H_
#define BEAMWRIGHT_OPS_KERNELS_OFFSETS_H_

#include <vector>

#include "absl/types/span.h"
#include "ops/tensor/shape.h"

namespace beamwright::ops {

// Strides of a dense tensor, in elements.
inline Shape DenseStrides(absl::Span<const int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  return strides;
}

// sum of index[i] * strides[i] for every index below `dims`, the last axis fastest. One offset, 0,
// without axes; none if an extent is 0.
inline std::vector<int64_t> Offsets(absl::Span<const int64_t> dims,
                                    absl::Span<const int64_t> strides) {
  std::vector<int64_t> offsets = {0};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(dims[axis]));
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < dims[axis]; ++i) {
        next.push_back(offset + i * strides[axis]);
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_OFFSETS_H_
