// Checks and readings of a node's inputs that the operators share. Messages name the input by its
// public name; the caller adds the node's.
#ifndef BEAMWRIGHT_OPS_KERNELS_INPUTS_H_
#define BEAMWRIGHT_OPS_KERNELS_INPUTS_H_

#include <initializer_list>

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
                        std::initializer_list<DType> allowed);
// Unknown rank passes.
absl::Status ExpectRank(const InputInfo& input, absl::string_view name, int rank);

// Reads integers (i32 or i64, rank 0 or 1) that may or may not be known yet: true and the values,
// or false. InvalidArgument for another type or rank, known or not.
absl::StatusOr<bool> ReadInts(const InputInfo& input, absl::string_view name, Ints& values);
// Number of elements of a list input, -1 if not known.
int64_t ListLength(const InputInfo& input);

// NumPy broadcasting of shapes known in part. InvalidArgument where they can't broadcast.
absl::StatusOr<PartialShape> BroadcastPartial(const PartialShape& a, const PartialShape& b);
// The extent both may have; InvalidArgument if both are known and differ.
absl::StatusOr<int64_t> MergeExtents(int64_t a, int64_t b);
// Axes normalised into [0, rank), no repeats.
absl::StatusOr<Ints> NormalizeAxes(absl::Span<const int64_t> axes, int rank);
PartialShape DynamicShape(int rank);
// Extents multiplied; -1 if one of them is not known (0 if one is 0).
int64_t PartialProduct(absl::Span<const int64_t> dims);

// An integer element i of an i32 or i64 tensor.
inline int64_t IntAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kI32 ? tensor.data<int32_t>()[i] : tensor.data<int64_t>()[i];
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INPUTS_H_
