// FindRelativeShifts: attention by relative positions picks its scores in one node.
//
//   before: GatherElements(Reshape(scores, [-1, places]), [time - 1, .., 0] + [0, .., keys - 1])
//   after:  RelativeShift(scores)     ops/kernels/attention.h
//
// So exporters write Transformer-XL's shift where they trace icefall's zipformer, over all axes in
// front of the places joined into one, and split them again: none of these nodes keeps rows apart.
//
// Example with 3 time steps, 5 places and 3 keys. Row t of the scores is read at the places 2 - t,
// 3 - t, 4 - t:
//
//   scores      a0 a1 a2 a3 a4        a2 a3 a4
//               b0 b1 b2 b3 b4   ->   b1 b2 b3
//               c0 c1 c2 c3 c4        c0 c1 c2
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/kernels/attention.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

class ShiftFinder {
 public:
  ShiftFinder(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), copy_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      const std::optional<Shift> shift = ShiftAt(index);
      if (shift.has_value()) {
        Append(index, *shift);
        any = true;
      } else {
        copy_.Keep(index);
      }
    }
    return any ? std::optional(DropUnneeded(std::move(copy_).Finish())) : std::nullopt;
  }

 private:
  // What a Reshape behind the gather stands for.
  struct Shift {
    ValueId scores;
    std::optional<ValueId> keys;  // a value of the graph; nothing: num_keys
    int64_t num_keys = 0;
  };

  const Node& NodeOf(ValueId id) const { return graph_.node(id.node); }
  const std::optional<std::vector<Extent>>& ShapeOf(ValueId id) const {
    return extents_.of(id).shape;
  }

  bool IsElement(ValueId id, int64_t number) const {
    const auto& elements = extents_.of(id).elements;
    return elements.has_value() && elements->size() == 1 && elements->front() == Extent{number, {}};
  }

  // Past nodes that leave the elements of a list, and their order, as they are.
  ValueId Source(ValueId id) const {
    while (true) {
      const Node& node = NodeOf(id);
      const bool converts = node.op == "Convert" && IsInteger(node.outputs[0].dtype) &&
                            IsInteger(graph_.info(node.inputs[0]).dtype);
      const bool keeps = node.op == "Unsqueeze" || node.op == "Squeeze" || node.op == "Reshape" ||
                         (node.op == "Broadcast" && ShapeOf(id).has_value() &&
                          ShapeOf(id) == ShapeOf(node.inputs[0]));
      if (!converts && !keeps) {
        return id;
      }
      id = node.inputs[0];
    }
  }

  // Whether a value known at load is first, first + step, .. of `count` numbers.
  bool IsKnownSeries(ValueId id, int64_t first, int64_t step, const Extent& count) const {
    const Tensor& known =
        info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
    if (!known.has_value() || !IsInteger(known.dtype()) ||
        count != Extent{known.num_elements(), {}}) {
      return false;
    }
    const absl::StatusOr<std::vector<int64_t>> numbers = ToInt64(known);
    for (size_t i = 0; numbers.ok() && i < numbers->size(); ++i) {
      if ((*numbers)[i] != first + step * static_cast<int64_t>(i)) {
        return false;
      }
    }
    return numbers.ok();
  }

  // 0, 1, .. count - 1.
  bool CountsUp(ValueId id, const Extent& count) const {
    const Node& node = NodeOf(id);
    if (IsKnownSeries(id, 0, 1, count)) {
      return true;
    }
    const auto stop = node.op == "Range" ? extents_.of(node.inputs[1]).elements : std::nullopt;
    return stop.has_value() && stop->size() == 1 && stop->front() == count &&
           IsElement(node.inputs[0], 0) && IsElement(node.inputs[2], 1);
  }

  // count - 1, .. 1, 0.
  bool CountsDown(ValueId id, const Extent& count) const {
    const Node& node = NodeOf(id);
    if (count.is_number() && IsKnownSeries(id, count.number - 1, -1, count)) {
      return true;
    }
    if (node.op != "Range" || !IsElement(node.inputs[1], -1) || !IsElement(node.inputs[2], -1)) {
      return false;
    }
    const ValueId start = Source(node.inputs[0]);
    const auto& known = extents_.of(start).elements;
    if (count.is_number()) {
      return known.has_value() && known->size() == 1 &&
             known->front() == Extent{count.number - 1, {}};
    }
    const Node& less = NodeOf(start);
    const auto whole = less.op == "Subtract" ? extents_.of(less.inputs[0]).elements : std::nullopt;
    return whole.has_value() && whole->size() == 1 && whole->front() == count &&
           IsElement(less.inputs[1], 1);
  }

  // Whether indices [rows, keys] are those of windows that move by one from row to row, `time` of
  // them, again and again; keys: 0, 1, .. of how many, or nothing if they are not.
  std::optional<ValueId> KeysOf(ValueId indices, const Extent& time, const Extent& keys) const {
    const Node& sum = NodeOf(indices);
    if (sum.op != "Add" ||
        sum.attributes.String("auto_broadcast", "numpy").value_or("") != "numpy") {
      return std::nullopt;
    }
    for (const size_t side : {0, 1}) {
      const ValueId column = sum.inputs[side];
      const ValueId tile = Source(column);
      const ValueId up = Source(sum.inputs[1 - side]);
      const auto& shape = ShapeOf(column);
      const auto& row = ShapeOf(sum.inputs[1 - side]);
      const bool fits = shape.has_value() && shape->size() == 2 && shape->back() == Extent{} &&
                        row.has_value() && !row->empty() && row->size() <= 2 &&
                        row->back() == keys && (row->size() == 1 || row->front() == Extent{});
      const Node& repeat = NodeOf(tile);
      if (fits && repeat.op == "Tile" && CountsUp(up, keys) &&
          CountsDown(Source(repeat.inputs[0]), time) && ShapeOf(repeat.inputs[0]).has_value() &&
          ShapeOf(repeat.inputs[0])->size() == 1 && ShapeOf(tile).has_value() &&
          ShapeOf(tile)->size() == 1) {
        return up;
      }
    }
    return std::nullopt;
  }

  // Goes from the Reshape behind the gather to the scores, and checks each node on the way:
  //
  // 1. Reshape(GatherElements(Reshape(scores), indices)) over the last axis.
  // 2. All axes but the last come back as they were in the scores.
  // 3. The indices are those of windows (KeysOf), as many as the scores have time steps.
  std::optional<Shift> ShiftAt(int index) const {
    const Node& apart = graph_.node(index);
    if (apart.op != "Reshape" || info_.IsKnown(index)) {
      return std::nullopt;
    }
    const Node& gather = NodeOf(apart.inputs[0]);
    if (gather.op != "GatherElements" || NodeOf(gather.inputs[0]).op != "Reshape") {
      return std::nullopt;
    }
    const ValueId scores = NodeOf(gather.inputs[0]).inputs[0];
    const int64_t axis = gather.attributes.Int("axis", 0).value_or(0);
    const auto& from = ShapeOf(scores);
    const auto& joined = ShapeOf(gather.inputs[0]);
    const auto& to = ShapeOf({index, 0});
    if ((axis != 1 && axis != -1) || !from.has_value() || from->size() < 2 || !joined.has_value() ||
        joined->size() != 2 || joined->back() != from->back() || !to.has_value() ||
        to->size() != from->size() || !std::equal(to->begin(), to->end() - 1, from->begin())) {
      return std::nullopt;
    }
    const std::optional<ValueId> up =
        KeysOf(gather.inputs[1], (*from)[from->size() - 2], to->back());
    if (!up.has_value()) {
      return std::nullopt;
    }
    if (to->back().is_number()) {
      return Shift{scores, std::nullopt, to->back().number};
    }
    return Shift{scores, NodeOf(*up).inputs[1]};
  }

  void Append(int index, const Shift& shift) {
    const Node& old = graph_.node(index);
    Node node;
    node.op = kRelativeShiftName;
    node.name = old.name;
    const ValueId keys =
        shift.keys.has_value()
            ? copy_.Of(*shift.keys)
            : AppendConstant(copy_.to(), old.name, Tensor::Scalar<int64_t>(shift.num_keys));
    node.inputs = {copy_.Of(shift.scores), keys};
    node.outputs = old.outputs;
    copy_.Replace({index, 0}, AppendNode(copy_.to(), std::move(node)));
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  GraphCopy copy_;
};

}  // namespace

absl::StatusOr<bool> FindRelativeShifts(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = ShiftFinder(graph, info, context.shapes->extents).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
