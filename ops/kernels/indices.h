// Tensors of indices: their checks, before anything is read through them, and tuples of indices.
#ifndef BEAMWRIGHT_OPS_KERNELS_INDICES_H_
#define BEAMWRIGHT_OPS_KERNELS_INDICES_H_

#include <string>
#include <vector>

#include "ops/kernels/inputs.h"

namespace beamwright::ops {

// InvalidArgument naming the first element of `indices` that is outside [least, extent), as in
// "indices[0,1]: 3 is outside [-3, 3)".
absl::Status CheckIndices(const Tensor& indices, absl::string_view name, int64_t least,
                          int64_t extent);

// Element i of checked indices, counted from the end where it is negative.
inline int64_t IndexAt(const Tensor& indices, int64_t i, int64_t extent) {
  const int64_t index = IntAt(indices, i);
  return index < 0 ? index + extent : index;
}

// Offsets of slices: the last axis of `indices` (extent k) holds tuples that name coordinates on
// the k axes of `shape` from `first_axis` on; each becomes a row-major offset among those axes,
// counted in slices. Rank of indices >= 1, k + first_axis <= rank of shape (checked by inference).
// InvalidArgument naming an index that is outside [-extent, extent).
absl::StatusOr<std::vector<int64_t>> TupleOffsets(const Tensor& indices, const Shape& shape,
                                                  int first_axis);

// Extents [begin, end) multiplied.
inline int64_t Product(const Shape& shape, int begin, int end) {
  return NumElements(absl::MakeConstSpan(shape).subspan(static_cast<size_t>(begin),
                                                        static_cast<size_t>(end - begin)));
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INDICES_H_
