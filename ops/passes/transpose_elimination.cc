// DropLayerTransposes: transpose elimination at the states of many layers.
//
//   before: Transpose(states [rows, layers, ..]), a Slice for each layer; Transpose(Concat(parts))
//   after:  a Slice of the states for each layer; Concat(parts) along the axis of the layers
//
// Exports put layers first; a served graph has rows first. The part of one layer has its elements
// in the same order either way.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
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

}  // namespace beamwright::ops
