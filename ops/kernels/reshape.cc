// Operators that change a shape, or read it, and leave the elements where they are.

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Reshape, Squeeze and Unsqueeze: only the shape changes, the elements are shared (Share). So the
// file is about two questions, asked at load with extents that may be unknown (-1):
//
// 1. The new shape. A 0 of a Reshape's pattern copies the input's extent, -1 is what remains
//    (InferOpen). Squeeze and Unsqueeze need to know their axes.
// 2. Where the rows are afterwards. Elements keep their order, so the axis of rows is the one in
//    front of which as many elements are as before (SamePrefix), and its extent for each row is the
//    quotient of what is behind it on both sides (RowsOnAxis):
//
//   [rows, 4, 8] -> [-1, 8]        rows on axis 0, 4 for each row
//   [1, rows, 32] -> [-1, 4, 8]    rows on axis 0, 1 for each row
//   [rows, 32] -> [2, 16, -1]      mixed: no axis has whole rows
//
// An extent of the row axis that the pattern fixes holds for one number of rows alone, and makes
// the value mixed.

namespace {

// An output rank far above any real one, so that sums of ranks cannot overflow.
constexpr int64_t kMaxAxes = 1 << 16;

Tensor ShareElements(const Tensor& input, const ValueInfo& output) {
  return input.Reshaped(output.shape.dims());
}

// In a run all extents are known: the reshape must keep the number of elements.
absl::Status CheckSameCount(const PartialShape& from, const PartialShape& to) {
  if (!from.is_static() || !to.is_static()) {
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(const int64_t before, CheckedNumElements(from.dims()));
  BW_ASSIGN_OR_RETURN(const int64_t after, CheckedNumElements(to.dims()));
  if (before != after) {
    return Invalid("shape ", from.ToString(), " with ", before, " elements does not reshape to ",
                   to.ToString(), " with ", after);
  }
  return absl::OkStatus();
}

struct ReshapeOp {
  using Options = bool;  // special_zero
  static absl::StatusOr<Options> Parse(const Node& node) {
    return node.attributes.Bool("special_zero", true);
  }

  // The extent for a -1 in the pattern: the elements of the input's axes that no 0 copies, divided
  // by the extents that the pattern states. -1 if that is not known yet.
  static absl::StatusOr<int64_t> InferOpen(const PartialShape& shape,
                                           absl::Span<const int64_t> pattern, bool special_zero) {
    Shape spread = shape.dims();
    int64_t given = 1;
    for (size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == 0 && special_zero) {
        spread[i] = 1;
      } else if (pattern[i] >= 0) {
        given *= pattern[i];
      }
    }
    const int64_t elements = PartialProduct(spread);
    if (elements < 0) {
      return PartialShape::kDynamic;
    }
    if (given == 0 || elements % given != 0) {
      return Invalid("shape ", shape.ToString(), " does not reshape to ", ToString(pattern), ": ",
                     elements, " elements are not divisible by ", given);
    }
    return elements / given;
  }

  static absl::Status Shapes(Options special_zero, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    Ints pattern;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "pattern", pattern));
    outputs[0].dtype = inputs[0].dtype;
    const PartialShape& shape = inputs[0].shape;
    if (!known) {
      const int64_t length = ListLength(inputs[1]);
      outputs[0].shape = length >= 0 ? DynamicShape(static_cast<int>(length)) : PartialShape();
      return absl::OkStatus();
    }
    Shape dims(pattern.begin(), pattern.end());
    int64_t* open = nullptr;
    for (size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] < -1 || pattern[i] > (int64_t{1} << 48) ||
          (pattern[i] == -1 && open != nullptr)) {
        return Invalid("pattern[", i, "]: ", pattern[i],
                       " must be at least 0 and at most 2^48 (one of them may be -1)");
      }
      open = pattern[i] == -1 ? &dims[i] : open;
      if (pattern[i] == 0 && special_zero) {
        if (shape.has_rank() && i >= static_cast<size_t>(shape.rank())) {
          return Invalid("pattern[", i, "]: 0 copies an extent that shape ", shape.ToString(),
                         " does not have");
        }
        dims[i] = shape.has_rank() ? shape.dim(static_cast<int>(i)) : PartialShape::kDynamic;
      }
    }
    if (open != nullptr && shape.has_rank()) {
      // An unknown rest stays -1.
      Shape given = dims;
      BW_RETURN_IF_ERROR(CheckGiven(given));
      BW_ASSIGN_OR_RETURN(*open, InferOpen(shape, pattern, special_zero));
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return CheckSameCount(shape, outputs[0].shape);
  }
  static absl::Status CheckGiven(Shape& dims) {
    for (int64_t& dim : dims) {
      dim = dim < 0 ? 1 : dim;
    }
    return CheckedNumElements(dims).status();
  }

  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    return ShareElements(input, output);
  }

  // Elements keep their order, so if the extents before the row axis multiply to the same on both
  // sides, and those behind it are known, the row axis' new extent is rows times a known factor.
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    if (!IsRows(rows[0]) || IsRows(rows[1]) || !inputs[0].shape.has_rank() ||
        node.outputs.empty() || !node.outputs[0].shape.has_rank()) {
      return kMixedRows;
    }
    const PartialShape& before = inputs[0].shape;
    const PartialShape& after = node.outputs[0].shape;
    Ints pattern;
    const bool known = ReadInts(inputs[1], "pattern", pattern).value_or(false);
    const bool copies = node.attributes.Bool("special_zero", true).value_or(true);
    const auto copied = [&](int i) {
      return known && copies && pattern[static_cast<size_t>(i)] == 0;
    };
    for (int axis = 0; axis < after.rank(); ++axis) {
      // Extents of 1 may be added or removed in front of the rows.
      if (SamePrefix(before, rows[0].axis, after, axis, copied) &&
          (after.dim(axis) != 1 || (copied(axis) && axis == rows[0].axis))) {
        return RowsOnAxis(rows[0], before, after, axis, copied);
      }
    }
    return kMixedRows;
  }

  // Whether axes [0, before_end) and [0, after_end) hold equally many elements.
  template <typename Copied>
  static bool SamePrefix(const PartialShape& before, int before_end, const PartialShape& after,
                         int after_end, Copied copied) {
    int64_t from = 1;
    int64_t to = 1;
    for (int i = 0; i < std::max(before_end, after_end); ++i) {
      if (i < before_end && i < after_end && copied(i)) {
        continue;  // equal, known or not
      }
      from = i < before_end ? PartialProduct({from, before.dim(i)}) : from;
      to = i < after_end ? PartialProduct({to, after.dim(i)}) : to;
    }
    return from > 0 && from == to;
  }

  // The rows on an axis of the output before which it has as many elements as the input before its
  // row axis.
  template <typename Copied>
  static RowInfo RowsOnAxis(const RowInfo& rows, const PartialShape& before,
                            const PartialShape& after, int axis, Copied copied) {
    if (copied(axis)) {
      return axis == rows.axis ? rows : kMixedRows;
    }
    // An extent of the row axis fixed by the pattern holds for one number of rows only.
    if (after.dim(axis) >= 0) {
      return kMixedRows;
    }
    // Copied axes behind the rows cancel, known or not.
    Shape inner = before.dims();
    Shape kept = after.dims();
    for (int i = std::max(axis, rows.axis) + 1; i < std::min(before.rank(), after.rank()); ++i) {
      if (copied(i)) {
        inner[static_cast<size_t>(i)] = 1;
        kept[static_cast<size_t>(i)] = 1;
      }
    }
    const int64_t from =
        PartialProduct(absl::MakeSpan(inner).subspan(static_cast<size_t>(rows.axis) + 1));
    const int64_t to = PartialProduct(absl::MakeSpan(kept).subspan(static_cast<size_t>(axis) + 1));
    if (from <= 0 || to <= 0 || rows.factor * from % to != 0) {
      return kMixedRows;
    }
    return RowsAt(axis, rows.factor * from / to);
  }
};

struct SqueezeOp {
  using Options = bool;  // allow_axis_skip: axes whose extent is not 1 stay
  static absl::StatusOr<Options> Parse(const Node& node) {
    return node.attributes.Bool("allow_axis_skip", false);
  }
  static absl::Status Shapes(Options skips, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 2, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    if (!shape.has_rank()) {
      return Present(inputs, 1) ? ExpectType(inputs[1], "axes", kIntegerTypes) : absl::OkStatus();
    }
    std::optional<Ints> axes = Ints();
    if (Present(inputs, 1)) {
      BW_ASSIGN_OR_RETURN(axes, ReadAxes(inputs[1], "axes", shape.rank()));
    }
    // Without axes, or with an empty list, every axis of extent 1 is removed.
    const bool every = axes.has_value() && axes->empty();
    if (!axes.has_value() || ((every || skips) && !shape.is_static())) {
      return absl::OkStatus();
    }
    Shape dims;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int64_t dim = shape.dim(axis);
      const bool named = every || Contains(*axes, axis);
      if (!named || (dim != 1 && (every || skips))) {
        dims.push_back(dim);
      } else if (dim >= 0 && dim != 1) {
        return Invalid("axes: axis ", axis, " of shape ", shape.ToString(), " has extent ", dim,
                       ", only 1 can be squeezed");
      }
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }
  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    return ShareElements(input, output);
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    // Where every axis of extent 1 is removed, the row axis would be removed with one row; where
    // axes may be kept, its place depends on their extents.
    if (!Present(inputs, 1) || ListLength(inputs[1]) == 0 ||
        node.attributes.Bool("allow_axis_skip", false).value_or(true)) {
      return kMixedRows;
    }
    return RowsWithoutAxes(rows, inputs);
  }
};

struct UnsqueezeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    const int64_t length = ListLength(inputs[1]);
    if (!shape.has_rank() || length < 0) {
      return ExpectType(inputs[1], "axes", kIntegerTypes);
    }
    if (length > kMaxAxes) {
      return Invalid("axes: has ", length, " elements, at most ", kMaxAxes, " are allowed");
    }
    const int rank = shape.rank() + static_cast<int>(length);
    BW_ASSIGN_OR_RETURN(const std::optional<Ints> axes, ReadAxes(inputs[1], "axes", rank));
    if (!axes.has_value()) {
      outputs[0].shape = DynamicShape(rank);
      return absl::OkStatus();
    }
    Shape dims;
    int next = 0;
    for (int axis = 0; axis < rank; ++axis) {
      dims.push_back(Contains(*axes, axis) ? 1 : shape.dim(next++));
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }
  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    return ShareElements(input, output);
  }
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const int64_t length = ListLength(inputs[1]);
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank() || length < 0) {
      return kMixedRows;
    }
    const int rank = inputs[0].shape.rank() + static_cast<int>(length);
    const std::optional<Ints> axes = ReadAxes(inputs[1], "axes", rank).value_or(std::nullopt);
    int old_axis = -1;
    for (int axis = 0; axes.has_value() && axis < rank; ++axis) {
      old_axis += Contains(*axes, axis) ? 0 : 1;
      if (old_axis == rows[0].axis) {
        return RowsAt(axis, rows[0].factor);
      }
    }
    return kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kReshape = CodeOf<ReshapeOp>(&ReshapeOp::Rows);
constinit const OperatorCode kSqueeze = CodeOf<SqueezeOp>(&SqueezeOp::Rows);
constinit const OperatorCode kUnsqueeze = CodeOf<UnsqueezeOp>(&UnsqueezeOp::Rows);

namespace {

struct ShapeOfOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseIndexType(node); }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = dtype;
    outputs[0].shape =
        inputs[0].shape.has_rank() ? PartialShape({inputs[0].shape.rank()}) : DynamicShape(1);
    return absl::OkStatus();
  }
  static absl::Status Compute(Options dtype, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    for (int axis = 0; axis < inputs[0]->rank(); ++axis) {
      const int64_t extent = inputs[0]->dim(axis);
      if (dtype == DType::kI32 && extent > std::numeric_limits<int32_t>::max()) {
        return Invalid("data: extent ", extent, " of axis ", axis, " does not fit i32");
      }
      SetIndex(outputs[0], dtype, axis, extent);
    }
    return absl::OkStatus();
  }
};

}  // namespace

constinit const OperatorCode kShapeOf = CodeOf<ShapeOfOp>(&ShapeOfRows);

namespace {

struct FirstRowOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    if (!shape.has_rank()) {
      return absl::OkStatus();
    }
    if (shape.rank() == 0 || shape.dim(0) == 0) {
      return Invalid("shape ", shape.ToString(), " has no first row");
    }
    outputs[0].shape = PartialShape(Shape(shape.dims().begin() + 1, shape.dims().end()));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    std::memcpy(outputs[0].mutable_bytes(), inputs[0]->bytes(),
                static_cast<size_t>(outputs[0].num_bytes()));
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
    const bool stands_for_all = IsFixed(rows[0]) || rows[0] == RowsAt(0, 1);
    return stands_for_all ? kFixedRows : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kFirstRow = CodeOf<FirstRowOp>(&FirstRowOp::Rows);

}  // namespace beamwright::ops
