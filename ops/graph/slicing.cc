#include "ops/graph/slicing.h"

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

absl::StatusOr<int64_t> ResolveIndex(absl::string_view what, int64_t value, int64_t extent) {
  const int64_t resolved = value < 0 ? value + extent : value;
  if (resolved < 0 || resolved >= extent) {
    return Invalid(what, " ", value, " is outside [", -extent, ", ", extent - 1, "], the axis has ",
                   extent, " elements");
  }
  return resolved;
}

}  // namespace

absl::StatusOr<SliceRange> ResolveSlice(const LoopInput& input, int64_t extent) {
  if (input.stride == 0) {
    return Invalid("stride is 0");
  }
  if (input.part_size < 1) {
    return Invalid("part_size ", input.part_size, " is not positive");
  }
  if (extent == 0) {
    if (input.may_be_empty) {
      return SliceRange{0, 1, 1, 0};
    }
    return Invalid("the sliced axis is empty");
  }
  BW_ASSIGN_OR_RETURN(const int64_t start, ResolveIndex("start", input.start, extent));
  BW_ASSIGN_OR_RETURN(const int64_t end, ResolveIndex("end", input.end, extent));
  const bool forward = input.stride > 0;
  if (forward ? start > end : start < end) {
    return Invalid("start ", input.start, " (element ", start, ") lies ",
                   forward ? "behind" : "before", " end ", input.end, " (element ", end,
                   ") although stride is ", input.stride);
  }
  const int64_t length = (forward ? end - start : start - end) + 1;
  if (length % input.part_size != 0) {
    return Invalid("the range of ", length, " elements does not divide into parts of ",
                   input.part_size);
  }
  SliceRange range;
  range.part_size = input.part_size;
  range.count = length / input.part_size;
  range.step = forward ? input.part_size : -input.part_size;
  range.first = forward ? start : start - input.part_size + 1;
  return range;
}

}  // namespace beamwright::ops
