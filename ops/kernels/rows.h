// How output rows follow from input rows, as far as operators share it (docs/architecture.md,
// 'Rows'). Rules are proofs: what they can't show is kMixed, which costs speed, never correctness.
#ifndef BEAMWRIGHT_OPS_KERNELS_ROWS_H_
#define BEAMWRIGHT_OPS_KERNELS_ROWS_H_

#include <optional>

#include "ops/graph/operator.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_KERNELS_ROWS_H_
