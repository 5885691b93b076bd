// Copies a strided view of a tensor into a dense one: transposes, slices, repeats and broadcasts
// are all this, with other strides.
#ifndef BEAMWRIGHT_OPS_KERNELS_STRIDED_COPY_H_
#define BEAMWRIGHT_OPS_KERNELS_STRIDED_COPY_H_

#include "ops/kernels/offsets.h"  // DenseStrides, for the strides of a copy
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// output[i0, i1, ...] = input element at offset + sum(i_n * strides[n]). `extents` has as many axes
// as `strides` and as many elements as `output`; axes may be more than the output's (Tile). Strides
// may be 0 or negative; every address must lie inside the input.
void StridedCopy(const Tensor& input, int64_t offset, absl::Span<const int64_t> extents,
                 absl::Span<const int64_t> strides, Tensor& output);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_STRIDED_COPY_H_
