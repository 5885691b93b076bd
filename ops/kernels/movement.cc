// Concat, Split, VariadicSplit and Transpose: bytes are moved, no element is computed.
//
// 1. Concat and the splits treat a tensor as OuterCount blocks of one axis; the part of an input in
//    a block is contiguous (InnerBytes times its extent), so one memcpy for each block and part.
//    [2, a + b, 3] from [2, a, 3] and [2, b, 3]: four copies, of 3 a and 3 b elements in turn.
// 2. Transpose is a copy with permuted strides (strided_copy.h).
// 3. Rows: an axis that is not concatenated, split or moved keeps its rows; Transpose moves the
//    axis of rows.
//
// Shapes work with extents that are not known yet (-1): a sum with an unknown part is unknown, a
// known one must agree.
#include "ops/kernels/movement.h"

#include <algorithm>
#include <cstring>

#include "ops/kernels/inputs.h"
#include "ops/kernels/strided_copy.h"

namespace beamwright::ops {
namespace {

// Bytes of one index of `axis`: the product of all extents behind it.
int64_t InnerBytes(const Tensor& tensor, int axis) {
  int64_t bytes = SizeOf(tensor.dtype());
  for (int i = axis + 1; i < tensor.rank(); ++i) {
    bytes *= tensor.dim(i);
  }
  return bytes;
}

int64_t OuterCount(const Tensor& tensor, int axis) {
  int64_t count = 1;
  for (int i = 0; i < axis; ++i) {
    count *= tensor.dim(i);
  }
  return count;
}

struct ConcatOp {
  struct Options {
    int64_t axis = 0;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    if (!node.attributes.Has("axis")) {
      return Invalid("attribute axis is required");
    }
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", 0));
    return options;
  }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, inputs.size(), outputs));
    outputs[0].dtype = inputs[0].dtype;
    PartialShape result;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype != inputs[0].dtype) {
        return Invalid("input ", i, ": element type ", Name(inputs[i].dtype),
                       " is not that of input 0, ", Name(inputs[0].dtype));
      }
      const PartialShape& shape = inputs[i].shape;
      if (!shape.has_rank()) {
        outputs[0].shape = PartialShape();
        return absl::OkStatus();
      }
      BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, shape.rank()));
      if (i == 0) {
        result = shape;
        continue;
      }
      absl::StatusOr<PartialShape> joined = Join(result, shape, axis);
      if (!joined.ok()) {
        return Annotate(joined.status(), absl::StrCat("input ", i));
      }
      result = *std::move(joined);
    }
    outputs[0].shape = result;
    return absl::OkStatus();
  }
  // The shape of a and b joined: their sum along the axis, and on other axes the extent that one of
  // them knows.
  static absl::StatusOr<PartialShape> Join(const PartialShape& a, const PartialShape& b, int axis) {
    Shape dims = a.dims();
    for (int i = 0; i < a.rank(); ++i) {
      int64_t& dim = dims[static_cast<size_t>(i)];
      if (a.rank() != b.rank() || (i != axis && dim >= 0 && b.dim(i) >= 0 && dim != b.dim(i))) {
        return Invalid("shape ", b.ToString(), " does not join ", a.ToString(), " along axis ",
                       axis);
      }
      dim = i != axis                   ? std::max(dim, b.dim(i))
            : dim >= 0 && b.dim(i) >= 0 ? dim + b.dim(i)
                                        : PartialShape::kDynamic;
    }
    return PartialShape(std::move(dims));
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    Tensor& out = outputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, out.rank()));
    const int64_t outer = OuterCount(out, axis);
    const int64_t row_bytes = InnerBytes(out, axis) * out.dim(axis);
    int64_t start = 0;
    for (const Tensor* input : inputs) {
      const int64_t bytes = InnerBytes(*input, axis) * input->dim(axis);
      for (int64_t i = 0; i < outer && bytes > 0; ++i) {
        std::memcpy(out.mutable_bytes() + i * row_bytes + start, input->bytes() + i * bytes,
                    static_cast<size_t>(bytes));
      }
      start += bytes;
    }
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return RowsBesideAxis(node.attributes.Int("axis", 0).value_or(0), rows, inputs);
  }
};

// Split and VariadicSplit: parts of the axis, in order.
void CopyParts(const Tensor& input, int axis, absl::Span<Tensor> outputs) {
  const int64_t outer = OuterCount(input, axis);
  const int64_t row_bytes = InnerBytes(input, axis) * input.dim(axis);
  int64_t start = 0;
  for (Tensor& output : outputs) {
    const int64_t bytes = InnerBytes(input, axis) * output.dim(axis);
    for (int64_t i = 0; i < outer && bytes > 0; ++i) {
      std::memcpy(output.mutable_bytes() + i * bytes, input.bytes() + i * row_bytes + start,
                  static_cast<size_t>(bytes));
    }
    start += bytes;
  }
}

// The axis of a split, or -1 if it is not known yet.
absl::StatusOr<int> SplitAxis(absl::Span<const InputInfo> inputs) {
  BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(inputs[1], "axis"));
  if (!axis.has_value() || !inputs[0].shape.has_rank()) {
    return -1;
  }
  return NormalizeAxis(*axis, inputs[0].shape.rank());
}

// Without the axis each part has open extents, of as many axes as the data.
void SetParts(const InputInfo& data, int axis, absl::Span<const int64_t> lengths,
              absl::Span<ValueInfo> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].dtype = data.dtype;
    if (axis < 0) {
      outputs[i].shape = data.shape.has_rank() ? DynamicShape(data.shape.rank()) : PartialShape();
      continue;
    }
    Shape dims = data.shape.dims();
    dims[static_cast<size_t>(axis)] = lengths[i];
    outputs[i].shape = PartialShape(std::move(dims));
  }
}

RowInfo SplitRows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  const absl::StatusOr<int> axis = SplitAxis(inputs);
  return OnlyFirstHasRows(rows).has_value() && axis.ok() && *axis >= 0 && *axis != rows[0].axis
             ? rows[0]
             : kMixedRows;
}

struct SplitOp {
  using Options = int64_t;  // num_splits
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const int64_t parts, node.attributes.Int("num_splits", 0));
    if (parts < 1) {
      return Invalid("attribute num_splits: ", parts, " must be at least 1");
    }
    return parts;
  }
  static absl::Status Shapes(Options parts, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs, static_cast<size_t>(parts)));
    BW_ASSIGN_OR_RETURN(const int axis, SplitAxis(inputs));
    int64_t length = PartialShape::kDynamic;
    if (axis >= 0 && inputs[0].shape.dim(axis) >= 0) {
      if (inputs[0].shape.dim(axis) % parts != 0) {
        return Invalid("data: extent ", inputs[0].shape.dim(axis), " of axis ", axis,
                       " is not divisible into ", parts, " parts");
      }
      length = inputs[0].shape.dim(axis) / parts;
    }
    SetParts(inputs[0], axis, std::vector<int64_t>(outputs.size(), length), outputs);
    return absl::OkStatus();
  }
  static absl::Status Compute(Options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(IntAt(*inputs[1], 0), inputs[0]->rank()));
    CopyParts(*inputs[0], axis, outputs);
    return absl::OkStatus();
  }
};

struct VariadicSplitOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs, outputs.size()));
    BW_ASSIGN_OR_RETURN(const int axis, SplitAxis(inputs));
    Ints lengths;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[2], "split_lengths", lengths));
    if (!known) {
      lengths.assign(outputs.size(), PartialShape::kDynamic);
    } else {
      const int64_t extent = axis < 0 ? PartialShape::kDynamic : inputs[0].shape.dim(axis);
      BW_RETURN_IF_ERROR(ResolveLengths(outputs.size(), extent, lengths));
    }
    SetParts(inputs[0], axis, lengths, outputs);
    return absl::OkStatus();
  }
  // Checks lengths and replaces -1 by the rest of the extent, where that is known.
  static absl::Status ResolveLengths(size_t parts, int64_t extent, Ints& lengths) {
    if (lengths.size() != parts) {
      return Invalid("split_lengths: has ", lengths.size(), " elements, expected one for each of ",
                     parts, " outputs");
    }
    int64_t sum = 0;
    int64_t* open = nullptr;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] < -1 || (lengths[i] == -1 && open != nullptr) ||
          lengths[i] > (int64_t{1} << 48)) {
        return Invalid("split_lengths[", i, "]: ", lengths[i],
                       " must be at least 0 and at most 2^48 (one of them may be -1)");
      }
      sum += lengths[i] < 0 ? 0 : lengths[i];
      open = lengths[i] < 0 ? &lengths[i] : open;
    }
    if (extent < 0) {
      return absl::OkStatus();
    }
    if (open == nullptr ? sum != extent : sum > extent) {
      return Invalid("split_lengths: sum ", sum, " does not fit the axis' extent ", extent);
    }
    if (open != nullptr) {
      *open = extent - sum;
    }
    return absl::OkStatus();
  }
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(IntAt(*inputs[1], 0), inputs[0]->rank()));
    CopyParts(*inputs[0], axis, outputs);
    return absl::OkStatus();
  }
};

struct TransposeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }
  // The permutation; an empty list means reversed. Axis i of the result is axis order[i] of the
  // data: {2, 0, 1} makes [c, a, b] of [a, b, c].
  static absl::StatusOr<Ints> Order(Ints order, int rank) {
    if (order.empty()) {
      for (int axis = rank - 1; axis >= 0; --axis) {
        order.push_back(axis);
      }
    }
    if (order.size() != static_cast<size_t>(rank)) {
      return Invalid("order: has ", order.size(), " elements, expected ", rank);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] < 0 || order[i] >= rank) {
        return Invalid("order[", i, "]: ", order[i], " is not an axis; allowed are 0 to ",
                       rank - 1);
      }
    }
    absl::StatusOr<Ints> normal = NormalizeAxes(order, rank);
    return normal.ok() ? normal : Annotate(normal.status(), "order");
  }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    Ints order;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "order", order));
    outputs[0].dtype = inputs[0].dtype;
    const PartialShape& shape = inputs[0].shape;
    if (!known || !shape.has_rank()) {
      outputs[0].shape = shape.has_rank() ? DynamicShape(shape.rank()) : PartialShape();
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(order, Order(std::move(order), shape.rank()));
    Shape dims;
    for (const int64_t axis : order) {
      dims.push_back(shape.dim(static_cast<int>(axis)));
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }
  // The result is dense; the data is read with its strides in the new order. For [2, 3] transposed
  // the strides {3, 1} become {1, 3}.
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    Ints order;
    for (int64_t i = 0; i < inputs[1]->num_elements(); ++i) {
      order.push_back(IntAt(*inputs[1], i));
    }
    BW_ASSIGN_OR_RETURN(order, Order(std::move(order), inputs[0]->rank()));
    const Shape dense = DenseStrides(inputs[0]->shape());
    Shape strides;
    for (const int64_t axis : order) {
      strides.push_back(dense[static_cast<size_t>(axis)]);
    }
    StridedCopy(*inputs[0], 0, outputs[0].shape(), strides, outputs[0]);
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    Ints order;
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank() ||
        !ReadInts(inputs[1], "order", order).value_or(false)) {
      return kMixedRows;
    }
    const absl::StatusOr<Ints> normal = Order(std::move(order), inputs[0].shape.rank());
    if (!normal.ok()) {
      return kMixedRows;
    }
    // Rows on axis a of the data are where the order names a.
    const auto place = std::find(normal->begin(), normal->end(), rows[0].axis);
    return RowsAt(static_cast<int>(place - normal->begin()), rows[0].factor);
  }
};

}  // namespace

constinit const OperatorCode kConcat = CodeOf<ConcatOp>(&ConcatOp::Rows);
constinit const OperatorCode kSplit = CodeOf<SplitOp>(&SplitRows);
constinit const OperatorCode kVariadicSplit = CodeOf<VariadicSplitOp>(&SplitRows);
constinit const OperatorCode kTranspose = CodeOf<TransposeOp>(&TransposeOp::Rows);

}  // namespace beamwright::ops
