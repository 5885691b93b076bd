// Operators that move whole blocks: between axes, and in reverse.
//
// Both kinds are one copy with strides (StridedCopy): an operator computes which stride of the
// input each axis of the output has, and no intermediate tensor is made. ReverseSequence, whose
// elements move by a different distance for each item of the batch, copies block by block.

#include <algorithm>
#include <cstring>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Operators that move whole blocks between axes: a reshape, a transpose and a reshape in one copy.

namespace {

// DepthToSpace and SpaceToDepth on [N, C, D1, ..., DK]: blocks of block_size^K elements lie in the
// depth on one side and in the K spatial axes on the other.
struct DepthSpaceOp {
  struct Options {
    bool to_space = true;
    bool blocks_first = true;  // the depth is [blocks..., rest], else [rest, blocks...]
    int64_t block = 1;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    options.to_space = node.op == "DepthToSpace";
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", ""));
    if (mode != "blocks_first" && mode != "depth_first") {
      return Invalid("attribute mode: '", mode,
                     "' is not supported, only blocks_first and depth_first");
    }
    options.blocks_first = mode == "blocks_first";
    BW_ASSIGN_OR_RETURN(options.block, node.attributes.Int("block_size", 1));
    if (options.block < 1 || options.block > (1 << 16)) {
      return Invalid("attribute block_size: ", options.block, " must be in [1, 65536]");
    }
    return options;
  }

  // An extent times or divided by `factor`; -1 stays.
  static absl::StatusOr<int64_t> Scaled(int axis, int64_t extent, int64_t factor, bool grows) {
    if (extent < 0) {
      return PartialShape::kDynamic;
    }
    if (grows ? extent > (int64_t{1} << 48) / factor : extent % factor != 0) {
      return Invalid("data: extent ", extent, " of axis ", axis,
                     grows ? " is too large for " : " is not divisible by ", factor);
    }
    return grows ? extent * factor : extent / factor;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    const PartialShape& shape = inputs[0].shape;
    if (!shape.has_rank()) {
      return absl::OkStatus();
    }
    if (shape.rank() < 3) {
      return Invalid("data: shape ", shape.ToString(), " must have rank 3 or more");
    }
    Shape dims = shape.dims();
    int64_t volume = 1;
    for (int axis = 2; axis < shape.rank(); ++axis) {
      BW_ASSIGN_OR_RETURN(dims[static_cast<size_t>(axis)],
                          Scaled(axis, shape.dim(axis), options.block, options.to_space));
      BW_ASSIGN_OR_RETURN(volume, Scaled(1, volume, options.block, true));
    }
    BW_ASSIGN_OR_RETURN(dims[1], Scaled(1, shape.dim(1), volume, !options.to_space));
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    // 1. Every axis of both shapes: the batch, what is left of the depth (rest), the places in
    //    space, and the offsets inside a block. 2. Their order is that of the output. 3. Each reads
    //    the input with its stride in there.
    // The coarse side has the small spatial extents, the fine side the small depth.
    const Tensor& coarse = options.to_space ? *inputs[0] : outputs[0];
    const Tensor& fine = options.to_space ? outputs[0] : *inputs[0];
    const int spatial = coarse.rank() - 2;
    const int64_t block = options.block;
    const int64_t depth = fine.dim(1);
    const int64_t blocks = depth == 0 ? 0 : coarse.dim(1) / depth;
    // Each axis as it lies in either side: extent, stride in coarse, stride in fine.
    const Shape in_coarse = DenseStrides(coarse.shape());
    const Shape in_fine = DenseStrides(fine.shape());
    struct Axis {
      int64_t extent = 1, coarse = 0, fine = 0;
    };
    const Axis batch = {fine.dim(0), in_coarse[0], in_fine[0]};
    // The coarse depth counts [blocks..., rest] or [rest, blocks...].
    const int64_t rest_stride = in_coarse[1] * (options.blocks_first ? 1 : blocks);
    int64_t stride = in_coarse[1] * (options.blocks_first ? depth : 1);
    const Axis rest = {depth, rest_stride, in_fine[1]};
    absl::InlinedVector<Axis, 8> places(static_cast<size_t>(spatial));   // D1, ...
    absl::InlinedVector<Axis, 8> offsets(static_cast<size_t>(spatial));  // inside a block
    for (size_t k = static_cast<size_t>(spatial); k-- > 0;) {
      places[k] = {coarse.dim(static_cast<int>(k) + 2), in_coarse[k + 2], in_fine[k + 2] * block};
      offsets[k] = {block, stride, in_fine[k + 2]};
      stride *= block;
    }
    // In the order of the output.
    absl::InlinedVector<Axis, 8> order = {batch};
    if (options.to_space) {
      order.push_back(rest);
      for (size_t k = 0; k < places.size(); ++k) {
        order.push_back(places[k]);
        order.push_back(offsets[k]);
      }
    } else {
      if (!options.blocks_first) {
        order.push_back(rest);
      }
      order.insert(order.end(), offsets.begin(), offsets.end());
      if (options.blocks_first) {
        order.push_back(rest);
      }
      order.insert(order.end(), places.begin(), places.end());
    }
    Shape extents;
    Shape strides;
    for (const Axis& axis : order) {
      extents.push_back(axis.extent);
      strides.push_back(options.to_space ? axis.coarse : axis.fine);
    }
    StridedCopy(*inputs[0], 0, extents, strides, outputs[0]);
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo>) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    return rows[0].axis == 0 ? rows[0] : kMixedRows;
  }
};

// The axis seen as [group, extent / group] and transposed.
struct ShuffleChannelsOp {
  struct Options {
    int64_t axis = 1;
    int64_t group = 1;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", 1));
    BW_ASSIGN_OR_RETURN(options.group, node.attributes.Int("group", 1));
    if (options.group < 1) {
      return Invalid("attribute group: ", options.group, " must be at least 1");
    }
    return options;
  }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    if (!inputs[0].shape.has_rank()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, inputs[0].shape.rank()));
    const int64_t extent = inputs[0].shape.dim(axis);
    return extent < 0 || extent % options.group == 0
               ? absl::OkStatus()
               : Invalid("data: extent ", extent, " of axis ", axis, " is not divisible into ",
                         options.group, " groups");
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, data.rank()));
    const int64_t outer = Product(data.shape(), 0, axis);
    const int64_t inner = Product(data.shape(), axis + 1, data.rank());
    const int64_t each = data.dim(axis) / options.group;
    StridedCopy(data, 0, {outer, each, options.group, inner},
                {data.dim(axis) * inner, inner, each * inner, 1}, outputs[0]);
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return RowsBesideAxis(node.attributes.Int("axis", 1).value_or(1), rows, inputs);
  }
};

}  // namespace

constinit const OperatorCode kDepthSpace = CodeOf<DepthSpaceOp>(&DepthSpaceOp::Rows);
constinit const OperatorCode kShuffleChannels = CodeOf<ShuffleChannelsOp>(&ShuffleChannelsOp::Rows);

// Reverse and ReverseSequence. Reverse turns whole axes around: a strided copy that begins at the
// last element and has negative strides. ReverseSequence turns around the first seq_lengths[b]
// elements of an axis for each batch item b, as bidirectional layers do with padded sequences;
// elements after that stay.
//
// Rows of several requests can be reversed together if they are not on a reversed axis. On the
// batch axis of ReverseSequence each row needs its length; on any other axis all rows must have the
// same lengths.

namespace {

struct ReverseOp {
  using Options = bool;  // the second input is a mask
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", ""));
    if (mode != "index" && mode != "mask") {
      return Invalid("attribute mode: '", mode, "' is not supported, only index and mask");
    }
    return mode == "mask";
  }

  // The axes that are reversed, or nothing while they are not known.
  static absl::StatusOr<std::optional<Ints>> Axes(bool mask, const InputInfo& input, int rank) {
    if (!mask) {
      return ReadAxes(input, "axis", rank);
    }
    BW_RETURN_IF_ERROR(ExpectType(input, "axis", {DType::kBool}));
    BW_RETURN_IF_ERROR(ExpectRank(input, "axis", 1));
    const int64_t length = ListLength(input);
    if (length >= 0 && length != rank) {
      return Invalid("axis: a mask of ", length, " elements for data of rank ", rank);
    }
    if (input.value == nullptr) {
      return std::nullopt;
    }
    Ints axes;
    for (int axis = 0; axis < rank; ++axis) {
      if (input.value->data<bool>()[axis]) {
        axes.push_back(axis);
      }
    }
    return axes;
  }

  static absl::Status Shapes(bool mask, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    if (!inputs[0].shape.has_rank()) {
      return mask ? ExpectType(inputs[1], "axis", {DType::kBool})
                  : ExpectType(inputs[1], "axis", kIntegerTypes);
    }
    return Axes(mask, inputs[1], inputs[0].shape.rank()).status();
  }

  static absl::Status Compute(bool mask, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    BW_ASSIGN_OR_RETURN(const std::optional<Ints> axes,
                        Axes(mask, DescribeInputs(inputs)[1], data.rank()));
    Shape strides = DenseStrides(data.shape());
    int64_t offset = 0;
    for (const int64_t axis : *axes) {
      int64_t& stride = strides[static_cast<size_t>(axis)];
      offset += stride * (data.dim(static_cast<int>(axis)) - 1);
      stride = -stride;
    }
    StridedCopy(data, offset, data.shape(), strides, outputs[0]);
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const absl::StatusOr<bool> mask = Parse(node);
    if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank() || !mask.ok()) {
      return kMixedRows;
    }
    const std::optional<Ints> axes =
        Axes(*mask, inputs[1], inputs[0].shape.rank()).value_or(std::nullopt);
    return axes.has_value() && !Contains(*axes, rows[0].axis) ? rows[0] : kMixedRows;
  }
};

// Reverses the first seq_lengths[b] elements of axis seq_axis for each index b of batch_axis.
struct ReverseSequenceOp {
  struct Options {
    int64_t batch_axis = 0;
    int64_t seq_axis = 1;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.batch_axis, node.attributes.Int("batch_axis", 0));
    BW_ASSIGN_OR_RETURN(options.seq_axis, node.attributes.Int("seq_axis", 1));
    return options;
  }

  struct Axes {
    int batch = 0;
    int seq = 1;
  };
  static absl::StatusOr<Axes> Resolve(const Options& options, int rank) {
    Axes axes;
    const std::pair<absl::string_view, int64_t> given[] = {{"batch_axis", options.batch_axis},
                                                           {"seq_axis", options.seq_axis}};
    int* const normal[] = {&axes.batch, &axes.seq};
    for (size_t i = 0; i < 2; ++i) {
      const absl::StatusOr<int> axis = NormalizeAxis(given[i].second, rank);
      if (!axis.ok()) {
        return Annotate(axis.status(), absl::StrCat("attribute ", given[i].first));
      }
      *normal[i] = *axis;
    }
    if (axes.batch == axes.seq) {
      return Invalid("attributes batch_axis and seq_axis: both name axis ", axes.seq);
    }
    return axes;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "seq_lengths", kIntegerTypes));
    BW_RETURN_IF_ERROR(ExpectRank(inputs[1], "seq_lengths", 1));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    if (!inputs[0].shape.has_rank()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const Axes axes, Resolve(options, inputs[0].shape.rank()));
    const absl::StatusOr<int64_t> batch =
        MergeExtents(inputs[0].shape.dim(axes.batch), ListLength(inputs[1]));
    return batch.ok() ? absl::OkStatus()
                      : Annotate(batch.status(), "seq_lengths and axis batch_axis of data");
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& lengths = *inputs[1];
    BW_ASSIGN_OR_RETURN(const Axes axes, Resolve(options, data.rank()));
    // A length of 0 leaves its stretch as it is.
    BW_RETURN_IF_ERROR(CheckIndices(lengths, "seq_lengths", 0, data.dim(axes.seq) + 1));
    const int first = std::min(axes.batch, axes.seq);
    const int second = std::max(axes.batch, axes.seq);
    const int64_t outer = Product(data.shape(), 0, first);
    const int64_t middle = Product(data.shape(), first + 1, second);
    const int64_t bytes = Product(data.shape(), second + 1, data.rank()) * SizeOf(data.dtype());
    // The element block at coordinates [o, i, m, j], i on the first and j on the second axis.
    const auto block = [&](int64_t o, int64_t i, int64_t m, int64_t j) {
      return (((o * data.dim(first) + i) * middle + m) * data.dim(second) + j) * bytes;
    };
    for (int64_t o = 0; o < outer && bytes > 0; ++o) {
      for (int64_t i = 0; i < data.dim(first); ++i) {
        for (int64_t m = 0; m < middle; ++m) {
          for (int64_t j = 0; j < data.dim(second); ++j) {
            const bool batch_first = axes.batch == first;
            const int64_t length = IntAt(lengths, batch_first ? i : j);
            const int64_t at = batch_first ? j : i;
            const int64_t from = at < length ? length - 1 - at : at;
            std::memcpy(outputs[0].mutable_bytes() + block(o, i, m, j),
                        data.bytes() + (batch_first ? block(o, i, m, from) : block(o, from, m, j)),
                        static_cast<size_t>(bytes));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const absl::StatusOr<Options> options = Parse(node);
    if (!IsRows(rows[0]) || !inputs[0].shape.has_rank() || !options.ok()) {
      return kMixedRows;
    }
    const absl::StatusOr<Axes> axes = Resolve(*options, inputs[0].shape.rank());
    if (!axes.ok() || rows[0].axis == axes->seq) {
      return kMixedRows;
    }
    // Rows on the batch axis need separate lengths, rows elsewhere the same ones.
    const bool apart =
        rows[0].axis == axes->batch ? rows[1] == RowsAt(0, rows[0].factor) : IsFixed(rows[1]);
    return apart ? rows[0] : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kReverse = CodeOf<ReverseOp>(&ReverseOp::Rows);
constinit const OperatorCode kReverseSequence = CodeOf<ReverseSequenceOp>(&ReverseSequenceOp::Rows);

}  // namespace beamwright::ops
