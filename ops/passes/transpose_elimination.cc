// DropLayerTransposes: transpose elimination at the states of many layers.
//
//   before: Transpose(states [rows, layers, ..]), a Slice for each layer; Transpose(Concat(parts))
//   after:  a Slice of the states for each layer; Concat(parts) along the axis of the layers
//
// Exports put layers first; a served graph has rows first. The part of one layer has its elements
// in the same order either way.
//
// Below: SplitJoinedTransposes, for the Transposes of attention's heads.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

using List = std::vector<int64_t>;

// Axis i of a transposed value is axis order[i] of what it was made of.
Shape Transposed(const Shape& dims, const List& order) {
  Shape transposed;
  for (const int64_t axis : order) {
    transposed.push_back(dims[static_cast<size_t>(axis)]);
  }
  return transposed;
}

// Whether transposing a value of this shape leaves its elements as they stand, and a Reshape can
// say so: all axes longer than 1 stay in order, and at most one extent is not known.
bool KeepsOrder(const Shape& dims, const List& order) {
  int64_t last = -1;
  for (const int64_t axis : order) {
    if (dims[static_cast<size_t>(axis)] != 1) {
      if (axis < last) {
        return false;
      }
      last = axis;
    }
  }
  return std::count(dims.begin(), dims.end(), PartialShape::kDynamic) <= 1 &&
         std::count(dims.begin(), dims.end(), 0) == 0;
}

class TransposeDropper {
 public:
  TransposeDropper(const Graph& graph, const GraphInfo& info)
      : graph_(graph), info_(info), copy_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      const std::optional<ValueId> value = info_.IsKnown(index)                ? std::nullopt
                                           : graph_.nodes[i].op == "Slice"     ? SliceBefore(index)
                                           : graph_.nodes[i].op == "Transpose" ? JoinBehind(index)
                                                                               : std::nullopt;
      if (value.has_value()) {
        copy_.Replace({index, 0}, *value);
        any = true;
      } else {
        copy_.Keep(index);
      }
    }
    return any ? std::optional(DropUnneeded(std::move(copy_).Finish())) : std::nullopt;
  }

 private:
  // A list that is known at load; empty if it is not.
  List ListAt(const Node& node, size_t input) const {
    if (input >= node.inputs.size() || !node.inputs[input].present()) {
      return {};
    }
    const ValueId id = node.inputs[input];
    const Tensor& known =
        info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
    return known.has_value() ? ToInt64(known).value_or(List()) : List();
  }

  // The order of a Transpose, if it names each axis once.
  List OrderOf(const Node& transpose) const {
    List order = ListAt(transpose, 1);
    List sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t axis = 0; axis < sorted.size(); ++axis) {
      if (sorted[axis] != static_cast<int64_t>(axis)) {
        return {};
      }
    }
    return order;
  }

  ValueId AppendReshape(const std::string& name, ValueId value, const Shape& dims,
                        const ValueInfo& info) {
    const ValueId reshaped =
        AppendWithList(copy_.to(), "Reshape", name, value, List(dims.begin(), dims.end()));
    Node& node = copy_.to().node(reshaped.node);
    node.attributes.Set("special_zero", false);
    node.outputs[0] = info;
    return reshaped;
  }

  // A Slice of a Transpose as the same slice of what was transposed.
  std::optional<ValueId> SliceBefore(int index) {
    const Node& slice = graph_.node(index);
    const Node& transpose = graph_.node(slice.inputs[0].node);
    const PartialShape& shape = slice.outputs[0].shape;
    if (transpose.op != "Transpose" || !shape.has_rank() || slice.inputs.size() != 5) {
      return std::nullopt;
    }
    const List order = OrderOf(transpose);
    List axes = ListAt(slice, 4);
    const auto rank = static_cast<int64_t>(order.size());
    if (rank == 0 || rank != shape.rank() || axes.empty()) {
      return std::nullopt;
    }
    for (int64_t& axis : axes) {
      axis += axis < 0 ? rank : 0;
      if (axis < 0 || axis >= rank) {
        return std::nullopt;
      }
      axis = order[static_cast<size_t>(axis)];
    }
    Shape before(shape.dims().size());  // of the slice of what was transposed
    for (size_t axis = 0; axis < before.size(); ++axis) {
      before[static_cast<size_t>(order[axis])] = shape.dim(static_cast<int>(axis));
    }
    if (!KeepsOrder(before, order)) {
      return std::nullopt;
    }
    Node taken = copy_.Moved(index);
    taken.inputs[0] = copy_.Of(transpose.inputs[0]);
    taken.inputs[4] = AppendInts(copy_.to(), slice.name, axes);
    taken.outputs[0] = ValueInfo();
    const ValueId value = AppendNode(copy_.to(), std::move(taken));
    return AppendReshape(slice.name, value, shape.dims(), slice.outputs[0]);
  }

  // A Transpose of a Concat as a Concat of what its parts become.
  std::optional<ValueId> JoinBehind(int index) {
    const Node& transpose = graph_.node(index);
    const Node& concat = graph_.node(transpose.inputs[0].node);
    const List order = OrderOf(transpose);
    const auto rank = static_cast<int64_t>(order.size());
    int64_t axis = concat.attributes.Int("axis", 0).value_or(rank);
    axis += axis < 0 ? rank : 0;
    if (concat.op != "Concat" || rank == 0 || axis < 0 || axis >= rank) {
      return std::nullopt;
    }
    for (const ValueId part : concat.inputs) {
      const PartialShape& shape = graph_.info(part).shape;
      if (!shape.has_rank() || shape.rank() != rank || !KeepsOrder(shape.dims(), order)) {
        return std::nullopt;
      }
    }
    Node joined;
    joined.op = "Concat";
    joined.name = transpose.name;
    joined.attributes.Set("axis", std::find(order.begin(), order.end(), axis) - order.begin());
    for (const ValueId part : concat.inputs) {
      const Shape dims = Transposed(graph_.info(part).shape.dims(), order);
      joined.inputs.push_back(AppendReshape(transpose.name, copy_.Of(part), dims,
                                            {graph_.info(part).dtype, PartialShape(dims), {}}));
    }
    joined.outputs = transpose.outputs;
    return AppendNode(copy_.to(), std::move(joined));
  }

  const Graph& graph_;
  const GraphInfo& info_;
  GraphCopy copy_;
};

}  // namespace

absl::StatusOr<bool> DropLayerTransposes(Graph& graph, GraphInfo& info,
                                         const PassContext& context) {
  std::optional<Graph> changed = TransposeDropper(graph, info).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

// SplitJoinedTransposes: reshape elimination around the Transposes of attention's heads.
//
//   before: Reshape(Transpose(Reshape([rows, heads, time, width] -> [rows * heads, time, width])))
//   after:  Transpose over separate axes, or nothing
//
// Joined, rows cannot be separated from heads; a transpose over separate axes gives the same
// numbers.
namespace {

using Axes = std::vector<Extent>;

// For each of the first axes the ones that it comes apart into, which make up `apart` in their
// order; nothing if they are not known to do that.
std::optional<std::vector<Axes>> Pieces(const Axes& joined, const Axes& apart) {
  std::vector<Axes> pieces;
  size_t next = 0;
  for (const Extent& whole : joined) {
    Axes own;
    Extent product;
    do {
      if (next == apart.size()) {
        return std::nullopt;
      }
      const std::optional<Extent> longer = Product(product, apart[next]);
      if (!longer.has_value()) {
        return std::nullopt;
      }
      product = *longer;
      own.push_back(apart[next++]);
    } while (product != whole);
    pieces.push_back(std::move(own));
  }
  return next == apart.size() ? std::optional(std::move(pieces)) : std::nullopt;
}

class TransposeSplitter {
 public:
  TransposeSplitter(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), split_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int index = static_cast<int>(i);
      if (const std::optional<Apart> apart = ApartOf(index)) {
        split_.Replace({index, 0}, Append(index, *apart));
        any = true;
      } else {
        split_.Keep(index);
      }
    }
    return any ? std::optional(DropUnneeded(std::move(split_).Finish())) : std::nullopt;
  }

 private:
  // What stands for the nodes: the data under a pattern, transposed.
  struct Apart {
    ValueId data;
    std::vector<int64_t> pattern;
    std::vector<int64_t> order;
  };

  // The node that a node's data comes from, if it is of this operator.
  int Before(int index, const char* op) const {
    const ValueId id = graph_.node(index).inputs[0];
    return graph_.node(id.node).op == op ? id.node : -1;
  }

  const std::optional<Axes>& ShapeOf(ValueId id) const { return extents_.of(id).shape; }

  std::optional<std::vector<int64_t>> OrderOf(int transpose, size_t rank) const {
    const std::vector<InputInfo> inputs = info_.InputsOf(graph_, graph_.node(transpose));
    const absl::StatusOr<std::vector<int64_t>> order =
        inputs.size() == 2 && inputs[1].value != nullptr ? ToInt64(*inputs[1].value)
                                                         : std::vector<int64_t>();
    if (!order.ok() || order->size() != rank ||
        std::any_of(order->begin(), order->end(),
                    [&](int64_t axis) { return axis < 0 || axis >= static_cast<int64_t>(rank); })) {
      return std::nullopt;
    }
    return *order;
  }

  static std::vector<int64_t> InOrder(size_t rank) {
    std::vector<int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  std::optional<Apart> ApartOf(int index) const {
    if (graph_.node(index).op != "Reshape" || info_.IsKnown(index)) {
      return std::nullopt;
    }
    const int transpose = Before(index, "Transpose");
    const int join = Before(transpose < 0 ? index : transpose, "Reshape");
    if (join < 0) {
      return std::nullopt;
    }
    const ValueId data = graph_.node(join).inputs[0];
    const std::optional<Axes>& joined = ShapeOf({join, 0});
    const std::optional<Axes>& apart = ShapeOf({index, 0});
    if (!ShapeOf(data).has_value() || !joined.has_value() || !apart.has_value() ||
        apart->size() <= joined->size()) {
      return std::nullopt;
    }
    const std::optional<std::vector<int64_t>> order =
        transpose < 0 ? InOrder(joined->size()) : OrderOf(transpose, joined->size());
    if (!order.has_value()) {
      return std::nullopt;
    }
    Axes transposed;
    for (const int64_t axis : *order) {
      transposed.push_back((*joined)[static_cast<size_t>(axis)]);
    }
    const std::optional<std::vector<Axes>> pieces = Pieces(transposed, *apart);
    return pieces.has_value() ? Arrange(data, *order, *pieces) : std::nullopt;
  }

  // order: the axis of the joined form that axis i of the transposed one was. pieces: of the
  // transposed one.
  std::optional<Apart> Arrange(ValueId data, const std::vector<int64_t>& order,
                               const std::vector<Axes>& pieces) const {
    std::vector<size_t> place(order.size());  // of each joined axis, in the transposed form
    for (size_t i = 0; i < order.size(); ++i) {
      place[static_cast<size_t>(order[i])] = i;
    }
    Axes axes;
    std::vector<int64_t> first(order.size());  // by joined axis: where its pieces begin
    for (size_t axis = 0; axis < place.size(); ++axis) {
      first[axis] = static_cast<int64_t>(axes.size());
      axes.insert(axes.end(), pieces[place[axis]].begin(), pieces[place[axis]].end());
    }
    Apart apart{data, {}, {}};
    for (size_t i = 0; i < order.size(); ++i) {
      for (size_t piece = 0; piece < pieces[i].size(); ++piece) {
        apart.order.push_back(first[static_cast<size_t>(order[i])] + static_cast<int64_t>(piece));
      }
    }
    std::optional<std::vector<int64_t>> pattern =
        ReshapePattern(extents_.of(data), std::move(axes), /*special_zero=*/true);
    if (!pattern.has_value()) {
      return std::nullopt;
    }
    apart.pattern = *std::move(pattern);
    return apart;
  }

  ValueId Append(int index, const Apart& apart) {
    Graph& to = split_.to();
    const std::string& name = graph_.node(index).name;
    ValueId value = AppendWithList(to, "Reshape", name, split_.Of(apart.data), apart.pattern);
    to.node(value.node).attributes.Set("special_zero", true);
    if (apart.order != InOrder(apart.order.size())) {
      value = AppendWithList(to, "Transpose", name, value, apart.order);
    }
    to.node(value.node).outputs = graph_.node(index).outputs;
    return value;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  GraphCopy split_;
};

}  // namespace

absl::StatusOr<bool> SplitJoinedTransposes(Graph& graph, GraphInfo& info,
                                           const PassContext& context) {
  std::optional<Graph> changed = TransposeSplitter(graph, info, context.shapes->extents).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
