// Operators that move whole blocks between axes: a reshape, a transpose and a reshape in one copy.
#include <algorithm>

#include "ops/kernels/indices.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/strided_copy.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
