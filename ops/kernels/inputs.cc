// Checks and readers that operators share when they infer shapes: the number of inputs
// (ExpectCounts), types (ExpectType), ranks; small integer inputs whose values may be known
// (ReadInts, ReadInt, ReadAxes); and arithmetic on extents that may be unknown (BroadcastPartial,
// MergeExtents, PartialProduct). Errors name the input, since a user sees them with the node's name
// before.
//
// Example: BroadcastPartial of [?, 1, 8] and [5, ?] is [?, 5, 8]: from the right, 8 meets ?, which
// can only be 1 or 8; 1 meets 5; and ? meets nothing, which counts as 1. MergeExtents of ? and 5 is
// 5.
//
// The second part is about rows: how operators say which rows their outputs belong to (from
// RowsWithoutRows on).
#include "ops/kernels/inputs.h"

#include <limits>

#include "ops/base/status.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

absl::Status ExpectCounts(absl::Span<const InputInfo> inputs, size_t least, size_t most,
                          absl::Span<ValueInfo> outputs, size_t num_outputs) {
  if (inputs.size() < least || inputs.size() > most) {
    return Invalid("has ", inputs.size(), " inputs, expected ", least,
                   most == least ? "" : absl::StrCat(" to ", most));
  }
  for (size_t i = 0; i < least; ++i) {
    if (inputs[i].dtype == DType::kUndefined) {
      return Invalid("input ", i, " is required and absent");
    }
  }
  if (outputs.size() != num_outputs) {
    return Invalid("has ", outputs.size(), " outputs, expected ", num_outputs);
  }
  return absl::OkStatus();
}

bool Present(absl::Span<const InputInfo> inputs, size_t index) {
  return index < inputs.size() && inputs[index].dtype != DType::kUndefined;
}

absl::Status ExpectType(const InputInfo& input, absl::string_view name,
                        absl::Span<const DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), input.dtype) != allowed.end()) {
    return absl::OkStatus();
  }
  std::string names;
  for (const DType dtype : allowed) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", Name(dtype));
  }
  const bool is_wide = input.dtype == DType::kF64 &&
                       std::find(allowed.begin(), allowed.end(), DType::kF32) != allowed.end();
  return Invalid(name, ": element type ", Name(input.dtype), " is not supported, only ", names,
                 is_wide ? "; export the model in f32 (in PyTorch after model.float())" : "");
}

absl::Status ExpectRank(const InputInfo& input, absl::string_view name, int rank) {
  if (input.shape.has_rank() && input.shape.rank() != rank) {
    return Invalid(name, ": shape ", input.shape.ToString(), " must have rank ", rank);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ReadInts(const InputInfo& input, absl::string_view name, Ints& values) {
  BW_RETURN_IF_ERROR(ExpectType(input, name, kIntegerTypes));
  if (input.shape.has_rank() && input.shape.rank() > 1) {
    return Invalid(name, ": shape ", input.shape.ToString(), " must have rank 0 or 1");
  }
  if (input.value == nullptr || !input.value->has_value()) {
    return false;
  }
  values.resize(static_cast<size_t>(input.value->num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = IntAt(*input.value, static_cast<int64_t>(i));
  }
  return true;
}

// The length is checked as early as it is known, so that a graph with a wrong one is refused at
// load.
absl::StatusOr<std::optional<int64_t>> ReadInt(const InputInfo& input, absl::string_view name) {
  Ints values;
  BW_ASSIGN_OR_RETURN(const bool known, ReadInts(input, name, values));
  const int64_t length = known ? static_cast<int64_t>(values.size()) : ListLength(input);
  if (length >= 0 && length != 1) {
    return Invalid(name, ": has ", length, " elements, expected 1");
  }
  return known ? std::optional<int64_t>(values[0]) : std::nullopt;
}

absl::StatusOr<std::optional<Ints>> ReadAxes(const InputInfo& input, absl::string_view name,
                                             int rank) {
  Ints values;
  BW_ASSIGN_OR_RETURN(const bool known, ReadInts(input, name, values));
  if (!known) {
    return std::nullopt;
  }
  absl::StatusOr<Ints> axes = NormalizeAxes(values, rank);
  if (!axes.ok()) {
    return Annotate(axes.status(), name);
  }
  return *std::move(axes);
}

int64_t ListLength(const InputInfo& input) {
  if (!input.shape.has_rank()) {
    return PartialShape::kDynamic;
  }
  return input.shape.rank() == 0 ? 1 : input.shape.dim(0);
}

// Extents are compared from the last axis on. If one of them is unknown and the other is neither 1
// nor unknown, the result has the known one: the unknown one can only be 1 or the same.
absl::StatusOr<PartialShape> BroadcastPartial(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) {
    return PartialShape();
  }
  const int rank = std::max(a.rank(), b.rank());
  Shape dims(static_cast<size_t>(rank), 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t left = i <= a.rank() ? a.dim(a.rank() - i) : 1;
    const int64_t right = i <= b.rank() ? b.dim(b.rank() - i) : 1;
    int64_t& dim = dims[static_cast<size_t>(rank - i)];
    if (left == right || right == 1) {
      dim = left;
    } else if (left == 1) {
      dim = right;
    } else if (left < 0 || right < 0) {
      dim = std::max(left, right);  // the unknown one is 1 or equal to the other
    } else {
      return Invalid("shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast");
    }
  }
  return PartialShape(std::move(dims));
}

absl::StatusOr<int64_t> MergeExtents(int64_t a, int64_t b) {
  if (a >= 0 && b >= 0 && a != b) {
    return Invalid("extents ", a, " and ", b, " differ");
  }
  return std::max(a, b);
}

absl::StatusOr<Ints> NormalizeAxes(absl::Span<const int64_t> axes, int rank) {
  Ints result;
  for (const int64_t axis : axes) {
    BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, rank));
    if (std::find(result.begin(), result.end(), normal) != result.end()) {
      return Invalid("axis ", axis, " is named twice");
    }
    result.push_back(normal);
  }
  return result;
}

// IntAt for types that it does not read itself (inputs.h). A u64 above the greatest int64 becomes
// that greatest value, which is outside of every axis, so that it cannot wrap around to a valid
// index.
int64_t OtherIntAt(const Tensor& tensor, int64_t i) {
  return VisitDType(tensor.dtype(), [&](auto type) -> int64_t {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      const T value = tensor.data<T>()[i];
      return std::is_same_v<T, uint64_t> && static_cast<uint64_t>(value) > kMost
                 ? static_cast<int64_t>(kMost)
                 : static_cast<int64_t>(value);
    } else {
      CheckFailed(__FILE__, __LINE__, "the tensor holds integers");
    }
  });
}

absl::StatusOr<DType> ParseIndexType(const Node& node) {
  BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("output_type", "i64"));
  const absl::StatusOr<DType> dtype = ParseDType(name);
  if (dtype.ok() && (*dtype == DType::kI64 || *dtype == DType::kI32)) {
    return *dtype;
  }
  return Invalid("attribute output_type: '", name, "' is not supported, only i64 and i32");
}

PartialShape DynamicShape(int rank) {
  return PartialShape(Shape(static_cast<size_t>(rank), PartialShape::kDynamic));
}

// An extent of 0 makes the product 0 whatever the unknown ones are.
int64_t PartialProduct(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  bool known = true;
  for (const int64_t dim : dims) {
    if (dim == 0) {
      return 0;
    }
    known = known && dim > 0;
    product *= dim > 0 ? dim : 1;
  }
  return known ? product : PartialShape::kDynamic;
}

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

// Each row of `indices` is a tuple of coordinates on the axes from `first_axis` on; its offset
// counts blocks of the axes behind them. Negative coordinates count from the end.
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

// How rows of requests pass through operators. RowInfo says of a value that it is the same for all
// requests (fixed), has their rows on an axis, is made of the number of rows (extent), or mixes
// them; a function here computes this of an operator's result from its inputs.
//
// ElementwiseRows counts axes from the right, as broadcasting does: all inputs with rows must have
// them on one axis, and a fixed input must have the extent 1 there, if it has that axis at all.
// RowsOffAxis and its relatives are for operators that work along axes: rows stay apart if theirs
// is another.
//
// What is not certain is "mixed": the model is then run for each request alone.

std::optional<RowInfo> RowsWithoutRows(absl::Span<const RowInfo> rows) {
  bool has_rows = false;
  bool has_extent = false;
  for (const RowInfo& info : rows) {
    if (info.kind == RowInfo::Kind::kMixed) {
      return kMixedRows;
    }
    has_rows = has_rows || IsRows(info);
    has_extent = has_extent || IsExtent(info);
  }
  if (has_rows) {
    return std::nullopt;
  }
  return has_extent ? kExtentRows : kFixedRows;
}

// Example: rows on axis 0 of [rows, 8] are at distance 2 from the right. Added to [rows, 1] they
// stay rows on axis 0; added to a fixed [8] too, which has no such axis; added to a fixed [4, 8]
// they are mixed, since the number of rows would have to be 4; added to [8, rows] they are mixed,
// as the rows of both lie on different axes.
RowInfo ElementwiseRows(const Node&, absl::Span<const RowInfo> rows,
                        absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  int rank = 0;
  int from_right = 0;  // distance of the row axis from the end; 0: none seen yet
  int64_t factor = 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!inputs[i].shape.has_rank() || IsExtent(rows[i])) {
      return kMixedRows;
    }
    rank = std::max(rank, inputs[i].shape.rank());
    if (!IsRows(rows[i])) {
      continue;
    }
    const int distance = inputs[i].shape.rank() - rows[i].axis;
    if (from_right != 0 && (distance != from_right || rows[i].factor != factor)) {
      return kMixedRows;
    }
    from_right = distance;
    factor = rows[i].factor;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const PartialShape& shape = inputs[i].shape;
    if (IsFixed(rows[i]) && shape.rank() >= from_right &&
        shape.dim(shape.rank() - from_right) != 1) {
      return kMixedRows;
    }
  }
  return RowsAt(rank - from_right, factor);
}

std::optional<RowInfo> OnlyFirstHasRows(absl::Span<const RowInfo> rows) {
  if (rows.empty() || !IsRows(rows[0]) ||
      !std::all_of(rows.begin() + 1, rows.end(), [](const RowInfo& r) { return IsFixed(r); })) {
    return std::nullopt;
  }
  return rows[0];
}

RowInfo RowsOffAxis(std::optional<int64_t> axis, absl::Span<const RowInfo> rows,
                    absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  const auto first = OnlyFirstHasRows(rows);
  if (!first.has_value() || !axis.has_value() || !inputs[0].shape.has_rank()) {
    return kMixedRows;
  }
  const absl::StatusOr<int> normal = NormalizeAxis(*axis, inputs[0].shape.rank());
  return normal.ok() && *normal != first->axis ? *first : kMixedRows;
}

RowInfo RowsBesideAxis(int64_t axis, absl::Span<const RowInfo> rows,
                       absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  if (!inputs[0].shape.has_rank()) {
    return kMixedRows;
  }
  const absl::StatusOr<int> normal = NormalizeAxis(axis, inputs[0].shape.rank());
  const bool same =
      std::all_of(rows.begin(), rows.end(), [&](const RowInfo& info) { return info == rows[0]; });
  return normal.ok() && same && *normal != rows[0].axis ? rows[0] : kMixedRows;
}

RowInfo RowsBesideAxes(absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank()) {
    return kMixedRows;
  }
  const absl::StatusOr<std::optional<Ints>> axes =
      ReadAxes(inputs[1], "axes", inputs[0].shape.rank());
  return axes.ok() && axes->has_value() && !Contains(**axes, rows[0].axis) ? rows[0] : kMixedRows;
}

// As RowsBesideAxes, for operators that drop the axes: the axis of rows moves to the left by the
// number of axes dropped before it.
RowInfo RowsWithoutAxes(absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs) {
  const RowInfo kept = RowsBesideAxes(rows, inputs);
  if (!IsRows(kept)) {
    return kept;
  }
  const std::optional<Ints> axes =
      ReadAxes(inputs[1], "axes", inputs[0].shape.rank()).value_or(std::nullopt);
  const auto before =
      std::count_if(axes->begin(), axes->end(), [&kept](int64_t axis) { return axis < kept.axis; });
  return RowsAt(kept.axis - static_cast<int>(before), kept.factor);
}

RowInfo ShapeOfRows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
  return RowsWithoutRows(rows).value_or(kExtentRows);
}

RowInfo ExtentRows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
  return RowsWithoutRows(rows).value_or(kMixedRows);
}

}  // namespace beamwright::ops
