// Tensors visited in an order that is not theirs: offsets per group of axes, walks as few long
// runs, squares with rows as columns, and copies of strided views.
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIDED_COPY_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIDED_COPY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ops/base/vector_isa.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Offsets of elements that a kernel visits in a special order: one list per group of axes,
// added up by the caller, instead of nested loops over a rank that is not known.

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

// Walks a tensor's axes, or some of them, in row-major order as few long runs.

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

// A square of a matrix with its rows as columns: what transposes and convolutions whose lanes are
// channels are made of.

// Most rows and columns of a square.
inline constexpr int64_t kSquare = 16;

// Elements of 32 bits, `stride` of them from row to row.
struct SquareRows {
  const uint32_t* data;
  int64_t stride;
};

// to[column * to_stride + row] = from[row][column] for rows and columns of the square, at most
// kSquare each. Reads and writes nothing else; `to` must not overlap.
void TurnSquare(VectorIsa isa, SquareRows from, int64_t rows, int64_t columns, uint32_t* to,
                int64_t to_stride);

// Copies a strided view of a tensor into a dense one: transposes, slices, repeats and broadcasts
// are all this, with other strides.

// output[i0, i1, ...] = input element at offset + sum(i_n * strides[n]). `extents` has as many axes
// as `strides` and as many elements as `output`; axes may be more than the output's (Tile). Strides
// may be 0 or negative; every address must lie inside the input.
void StridedCopy(const Tensor& input, int64_t offset, absl::Span<const int64_t> extents,
                 absl::Span<const int64_t> strides, Tensor& output);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIDED_COPY_H_
