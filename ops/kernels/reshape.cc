#include <algorithm>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

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

  // What a -1 in the pattern stands for: the elements of the input's axes that no 0 copies, divided
  // by the extents that the pattern gives. -1 if that is not known yet.
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
      // A dynamic rest is fine: -1 stays -1.
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

  // Elements keep their order, so if the axes before the row axis stay as they are and the extents
  // behind it are known on both sides, the row axis' new extent is rows times a known factor.
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    if (!IsRows(rows[0]) || IsRows(rows[1]) || !inputs[0].shape.has_rank() ||
        node.outputs.empty() || !node.outputs[0].shape.has_rank()) {
      return kMixedRows;
    }
    const int axis = rows[0].axis;
    const PartialShape& before = inputs[0].shape;
    const PartialShape& after = node.outputs[0].shape;
    if (axis >= after.rank()) {
      return kMixedRows;
    }
    Ints pattern;
    const bool known = ReadInts(inputs[1], "pattern", pattern).value_or(false);
    const bool copies = node.attributes.Bool("special_zero", true).value_or(true);
    const auto copied = [&](int i) {
      return known && copies && pattern[static_cast<size_t>(i)] == 0;
    };
    for (int i = 0; i < axis; ++i) {
      if (!copied(i) && (before.dim(i) < 0 || before.dim(i) != after.dim(i))) {
        return kMixedRows;
      }
    }
    if (copied(axis)) {
      return rows[0];
    }
    // An extent of the row axis fixed by the pattern holds for one number of rows only.
    if (after.dim(axis) >= 0) {
      return kMixedRows;
    }
    // Axes behind that are copied on both sides cancel, known or not.
    Shape inner = before.dims();
    Shape kept = after.dims();
    for (int i = axis + 1; i < after.rank(); ++i) {
      if (copied(i)) {
        inner[static_cast<size_t>(i)] = 1;
        kept[static_cast<size_t>(i)] = 1;
      }
    }
    const int64_t from =
        PartialProduct(absl::MakeSpan(inner).subspan(static_cast<size_t>(axis) + 1));
    const int64_t to = PartialProduct(absl::MakeSpan(kept).subspan(static_cast<size_t>(axis) + 1));
    if (from <= 0 || to <= 0 || rows[0].factor * from % to != 0) {
      return kMixedRows;
    }
    return RowsAt(axis, rows[0].factor * from / to);
  }
};

struct SqueezeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 2, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    Ints axes;
    if (Present(inputs, 1)) {
      BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "axes", axes));
      if (!known || !shape.has_rank()) {
        return absl::OkStatus();
      }
      BW_ASSIGN_OR_RETURN(axes, NormalizeAxes(axes, shape.rank()));
    } else if (!shape.is_static()) {
      return absl::OkStatus();
    } else {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape.dim(axis) == 1) {
          axes.push_back(axis);
        }
      }
    }
    Shape dims;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
        dims.push_back(shape.dim(axis));
      } else if (shape.dim(axis) >= 0 && shape.dim(axis) != 1) {
        return Invalid("axes: axis ", axis, " of shape ", shape.ToString(), " has extent ",
                       shape.dim(axis), ", only 1 can be squeezed");
      }
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
    Ints axes;
    // Without axes the row axis would go as soon as there is one row.
    if (!OnlyFirstHasRows(rows).has_value() || !Present(inputs, 1) || !inputs[0].shape.has_rank() ||
        !ReadInts(inputs[1], "axes", axes).value_or(false)) {
      return kMixedRows;
    }
    const absl::StatusOr<Ints> normal = NormalizeAxes(axes, inputs[0].shape.rank());
    const int axis = rows[0].axis;
    if (!normal.ok() || std::find(normal->begin(), normal->end(), axis) != normal->end()) {
      return kMixedRows;
    }
    const auto before = std::count_if(normal->begin(), normal->end(),
                                      [axis](int64_t squeezed) { return squeezed < axis; });
    return RowsAt(axis - static_cast<int>(before), rows[0].factor);
  }
};

struct UnsqueezeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    Ints axes;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "axes", axes));
    outputs[0].dtype = inputs[0].dtype;
    const PartialShape& shape = inputs[0].shape;
    const int64_t length = ListLength(inputs[1]);
    if (!known || !shape.has_rank()) {
      outputs[0].shape = shape.has_rank() && length >= 0
                             ? DynamicShape(shape.rank() + static_cast<int>(length))
                             : PartialShape();
      return absl::OkStatus();
    }
    const int rank = shape.rank() + static_cast<int>(axes.size());
    BW_ASSIGN_OR_RETURN(axes, NormalizeAxes(axes, rank));
    Shape dims;
    int next = 0;
    for (int axis = 0; axis < rank; ++axis) {
      const bool is_new = std::find(axes.begin(), axes.end(), axis) != axes.end();
      dims.push_back(is_new ? 1 : shape.dim(next++));
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
    Ints axes;
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank() ||
        !ReadInts(inputs[1], "axes", axes).value_or(false)) {
      return kMixedRows;
    }
    const int rank = inputs[0].shape.rank() + static_cast<int>(axes.size());
    const absl::StatusOr<Ints> normal = NormalizeAxes(axes, rank);
    int old_axis = -1;
    for (int axis = 0; normal.ok() && axis < rank; ++axis) {
      old_axis += std::find(normal->begin(), normal->end(), axis) == normal->end() ? 1 : 0;
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

}  // namespace beamwright::ops
