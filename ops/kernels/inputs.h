// Checks and readings of a node's inputs that the operators share. Messages name the input by its
// public name; the caller adds the node's.
#ifndef BEAMWRIGHT_OPS_KERNELS_INPUTS_H_
#define BEAMWRIGHT_OPS_KERNELS_INPUTS_H_

#include <algorithm>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

using Ints = absl::InlinedVector<int64_t, 8>;

// Between `least` and inputs.size() <= `most` inputs, the first `least` of them present, and
// exactly `num_outputs` outputs.
absl::Status ExpectCounts(absl::Span<const InputInfo> inputs, size_t least, size_t most,
                          absl::Span<ValueInfo> outputs, size_t num_outputs = 1);
bool Present(absl::Span<const InputInfo> inputs, size_t index);

absl::Status ExpectType(const InputInfo& input, absl::string_view name,
                        absl::Span<const DType> allowed);
// Unknown rank passes.
absl::Status ExpectRank(const InputInfo& input, absl::string_view name, int rank);

// Reads integers (any integer type, rank 0 or 1) that may or may not be known yet: true and the
// values, or false. InvalidArgument for another type or rank, known or not.
absl::StatusOr<bool> ReadInts(const InputInfo& input, absl::string_view name, Ints& values);
// The one integer of a scalar or one-element list, nothing while it is not known.
// InvalidArgument for another number of elements.
absl::StatusOr<std::optional<int64_t>> ReadInt(const InputInfo& input, absl::string_view name);
// A list of axes, normalised into [0, rank), no repeats; nothing while it is not known.
absl::StatusOr<std::optional<Ints>> ReadAxes(const InputInfo& input, absl::string_view name,
                                             int rank);
// Number of elements of a list input, -1 if not known.
int64_t ListLength(const InputInfo& input);

// NumPy broadcasting of shapes known in part. InvalidArgument where they can't broadcast.
absl::StatusOr<PartialShape> BroadcastPartial(const PartialShape& a, const PartialShape& b);
// The extent both may have; InvalidArgument if both are known and differ.
absl::StatusOr<int64_t> MergeExtents(int64_t a, int64_t b);
// Axes normalised into [0, rank), no repeats.
absl::StatusOr<Ints> NormalizeAxes(absl::Span<const int64_t> axes, int rank);
inline bool Contains(absl::Span<const int64_t> axes, int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}
PartialShape DynamicShape(int rank);
// Extents multiplied; -1 if one of them is not known (0 if one is 0).
int64_t PartialProduct(absl::Span<const int64_t> dims);

// A run's input `index`; null where it is absent.
inline const Tensor* InputOrNull(absl::Span<const Tensor* const> inputs, size_t index) {
  return index < inputs.size() && inputs[index] != nullptr && inputs[index]->has_value()
             ? inputs[index]
             : nullptr;
}

// Element i of a tensor of integers other than i32 and i64; see IntAt.
int64_t OtherIntAt(const Tensor& tensor, int64_t i);
// Element i of a tensor of integers. A u64 above 2^63 - 1 reads as 2^63 - 1: as an index, an axis
// or an extent that is just as far out of range.
inline int64_t IntAt(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kI64:
      return tensor.data<int64_t>()[i];
    case DType::kI32:
      return tensor.data<int32_t>()[i];
    default:
      return OtherIntAt(tensor, i);
  }
}

// Attribute output_type of operators that answer with indices or extents: i64 (default) or i32.
absl::StatusOr<DType> ParseIndexType(const Node& node);
// Sets element i of a tensor of such a type.
inline void SetIndex(Tensor& tensor, DType dtype, int64_t i, int64_t value) {
  if (dtype == DType::kI32) {
    tensor.mutable_data<int32_t>()[i] = static_cast<int32_t>(value);
  } else {
    tensor.mutable_data<int64_t>()[i] = value;
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INPUTS_H_
