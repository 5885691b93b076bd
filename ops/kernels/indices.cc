#include "ops/kernels/indices.h"

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

absl::Status OutsideError(const Tensor& indices, absl::string_view name, int64_t position,
                          int64_t least, int64_t extent) {
  const int64_t index = IntAt(indices, position);
  std::string place;  // coordinates, as in "3,0,1"
  for (int axis = indices.rank(); axis-- > 0;) {
    place = absl::StrCat(position % indices.dim(axis), place.empty() ? "" : ",", place);
    position /= indices.dim(axis);
  }
  return Invalid(name, "[", place, "]: ", index, " is outside [", least, ", ", extent, ")");
}

}  // namespace

absl::Status CheckIndices(const Tensor& indices, absl::string_view name, int64_t least,
                          int64_t extent) {
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t index = IntAt(indices, i);
    if (index < least || index >= extent) {
      return OutsideError(indices, name, i, least, extent);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> TupleOffsets(const Tensor& indices, const Shape& shape,
                                                  int first_axis) {
  const int64_t length = indices.dim(indices.rank() - 1);
  const int64_t count = Product(indices.shape(), 0, indices.rank() - 1);
  std::vector<int64_t> offsets(static_cast<size_t>(count), 0);
  for (int64_t tuple = 0; tuple < count; ++tuple) {
    int64_t& offset = offsets[static_cast<size_t>(tuple)];
    for (int64_t k = 0; k < length; ++k) {
      const int64_t position = tuple * length + k;
      const int64_t extent = shape[static_cast<size_t>(first_axis + k)];
      const int64_t index = IntAt(indices, position);
      if (index < -extent || index >= extent) {
        return OutsideError(indices, "indices", position, -extent, extent);
      }
      offset = offset * extent + (index < 0 ? index + extent : index);
    }
  }
  return offsets;
}

}  // namespace beamwright::ops
