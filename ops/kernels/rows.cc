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
#include "ops/kernels/rows.h"

#include <algorithm>

#include "ops/kernels/inputs.h"

namespace beamwright::ops {

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
