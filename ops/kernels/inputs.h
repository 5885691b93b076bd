// What operators share: checks and readings of a node's inputs, tensors of indices, and how output
// rows follow from input rows.
#ifndef BEAMWRIGHT_OPS_KERNELS_INPUTS_H_
#define BEAMWRIGHT_OPS_KERNELS_INPUTS_H_

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Checks and readings of a node's inputs that the operators share. Messages name the input by its
// public name; the caller adds the node's.

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

// Tensors of indices: their checks, before anything is read through them, and tuples of indices.

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

// How output rows follow from input rows, as far as operators share it (docs/architecture.md,
// 'Rows'). Rules are proofs: what they can't show is kMixed, which costs speed, never correctness.

inline constexpr RowInfo kFixedRows{RowInfo::Kind::kFixed, 0, 1};
inline constexpr RowInfo kExtentRows{RowInfo::Kind::kExtent, 0, 1};
inline constexpr RowInfo kMixedRows{RowInfo::Kind::kMixed, 0, 1};
inline RowInfo RowsAt(int axis, int64_t factor) { return {RowInfo::Kind::kRows, axis, factor}; }
inline bool IsRows(const RowInfo& info) { return info.kind == RowInfo::Kind::kRows; }
inline bool IsFixed(const RowInfo& info) { return info.kind == RowInfo::Kind::kFixed; }
inline bool IsExtent(const RowInfo& info) { return info.kind == RowInfo::Kind::kExtent; }

// The answer that needs no look at the operator: kFixed if all inputs are, kExtent if all are
// kFixed or kExtent, kMixed if one is. Nothing if some input has rows.
std::optional<RowInfo> RowsWithoutRows(absl::Span<const RowInfo> rows);

// Element by element under NumPy broadcasting, any number of inputs.
RowInfo ElementwiseRows(const Node& node, absl::Span<const RowInfo> rows,
                        absl::Span<const InputInfo> inputs);
// The first input has rows and all others are fixed: what `rows[0]` says, else nothing.
std::optional<RowInfo> OnlyFirstHasRows(absl::Span<const RowInfo> rows);
// Operators of one data input that treat one axis as a whole (SoftMax, Concat: several alike
// inputs) keep rows on any other: what the inputs' rows, all the same, say, else kMixed.
RowInfo RowsBesideAxis(int64_t axis, absl::Span<const RowInfo> rows,
                       absl::Span<const InputInfo> inputs);
// The same for data and a fixed, known list of axes (Reverse): the axes stay where they are.
RowInfo RowsBesideAxes(absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs);
// And where those axes go away (Squeeze, reductions).
RowInfo RowsWithoutAxes(absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs);
// The first input has rows, is worked on along `axis` (not known: nothing) in slices that stand
// alone, and all others are fixed: rows stay where they are unless they stand on that axis.
RowInfo RowsOffAxis(std::optional<int64_t> axis, absl::Span<const RowInfo> rows,
                    absl::Span<const InputInfo> inputs);
// The output's content is integers that follow from the input's shape.
RowInfo ShapeOfRows(const Node& node, absl::Span<const RowInfo> rows,
                    absl::Span<const InputInfo> inputs);
// kFixed or kExtent as RowsWithoutRows says, kMixed as soon as an input has rows.
RowInfo ExtentRows(const Node& node, absl::Span<const RowInfo> rows,
                   absl::Span<const InputInfo> inputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_INPUTS_H_
