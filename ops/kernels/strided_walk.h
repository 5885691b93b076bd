// Walks a tensor's axes, or some of them, in row-major order as few long runs.
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIDED_WALK_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIDED_WALK_H_

#include "ops/tensor/shape.h"

namespace beamwright::ops {

// Axes as extents and strides (in elements), outermost first; neighbours that run on are merged.
struct StridedAxes {
  Shape extents;
  Shape strides;
  int64_t count = 1;

  void Add(int64_t extent, int64_t stride) {
    count *= extent;
    if (!extents.empty() && strides.back() == stride * extent) {
      extents.back() *= extent;
      strides.back() = stride;
    } else {
      extents.push_back(extent);
      strides.push_back(stride);
    }
  }
};

// Calls run(offset, count, stride) for each innermost run, in order.
template <typename Run>
void ForEachRun(const StridedAxes& axes, Run run) {
  if (axes.count == 0) {
    return;
  }
  if (axes.extents.empty()) {
    return run(int64_t{0}, int64_t{1}, int64_t{1});
  }
  const size_t inner = axes.extents.size() - 1;
  Shape index(axes.extents.size(), 0);
  int64_t offset = 0;
  for (int64_t done = 0; done < axes.count; done += axes.extents[inner]) {
    run(offset, axes.extents[inner], axes.strides[inner]);
    for (size_t axis = inner; axis-- > 0;) {
      offset += axes.strides[axis];
      if (++index[axis] < axes.extents[axis]) {
        break;
      }
      offset -= axes.strides[axis] * axes.extents[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIDED_WALK_H_
