// Finds states that grow by one element in each step, such as caches of keys: GrowingAxis returns
// the axis, or -1. The next value of such a state is a Concat of the old one with something of
// extent 1, perhaps behind other operators.
//
// LengthTracer computes the extent of an axis of a value as a multiple of the state's length plus a
// number, by going back through Concat, Transpose, Unsqueeze and other operators that move axes; a
// state grows if the result is "once the length, plus 1". JoinedAxis accepts a plain Concat with a
// value whose extent inference does not know.
#include "ops/compile/growing_states.h"

#include <optional>

namespace beamwright::ops {
namespace {

// An extent: a multiple of the length of the state, plus a number.
struct Length {
  int64_t states = 0;
  int64_t number = 0;
};

class LengthTracer {
 public:
  LengthTracer(const Graph& graph, int parameter, int axis)
      : graph_(graph), parameter_(parameter), axis_(axis) {}

  // The extent of an axis of a value; nothing if it is not known.
  std::optional<Length> Of(ValueId value, int64_t axis) {
    const PartialShape& shape = graph_.info(value).shape;
    if (!shape.has_rank() || axis < 0 || axis >= shape.rank() || ++visited_ > kMostVisited) {
      return std::nullopt;
    }
    if (const int64_t extent = shape.dim(static_cast<int>(axis)); extent >= 0) {
      return Length{0, extent};
    }
    if (value == ValueId{parameter_, 0}) {
      return axis == axis_ ? std::optional(Length{1, 0}) : std::nullopt;
    }
    const Node& node = graph_.node(value.node);
    if (node.op == "Concat") {
      return OfConcat(node, axis, shape.rank());
    }
    const std::optional<int64_t> from = AxisBefore(node, axis, shape.rank());
    return from.has_value() ? Of(node.inputs[0], *from) : std::nullopt;
  }

 private:
  // A value that several others read is traced for each: bounded, for graphs made to be slow.
  static constexpr int kMostVisited = 10'000;

  std::optional<Length> OfConcat(const Node& node, int64_t axis, int rank) {
    const int64_t joined = node.attributes.Int("axis", 0).value_or(0);
    const bool adds = axis == (joined < 0 ? joined + rank : joined);
    Length sum;
    for (const ValueId input : node.inputs) {
      const std::optional<Length> one = Of(input, axis);
      if (!adds && one.has_value()) {
        return one;  // all inputs agree on the other axes
      }
      if (adds && !one.has_value()) {
        return std::nullopt;
      }
      sum = adds ? Length{sum.states + one->states, sum.number + one->number} : sum;
    }
    return adds ? std::optional(sum) : std::nullopt;
  }

  // The only integers of a small constant.
  std::optional<std::vector<int64_t>> Known(ValueId id) const {
    const Node& node = graph_.node(id.node);
    const absl::StatusOr<std::vector<int64_t>> values =
        node.op == "Constant" && node.constant.has_value() ? ToInt64(node.constant)
                                                           : absl::NotFoundError("");
    return values.ok() ? std::optional(*values) : std::nullopt;
  }

  // The axis of a node's first input that becomes this axis of its output, with every element.
  std::optional<int64_t> AxisBefore(const Node& node, int64_t axis, int rank) const {
    if (node.op == "Convert") {
      return axis;
    }
    if (node.inputs.size() < 2 || !node.inputs[1].present()) {
      return std::nullopt;
    }
    const std::optional<std::vector<int64_t>> known = Known(node.inputs[1]);
    if (node.op == "Transpose" && known.has_value() && axis < static_cast<int64_t>(known->size())) {
      return (*known)[static_cast<size_t>(axis)];
    }
    if ((node.op == "Unsqueeze" || node.op == "Squeeze") && known.has_value() &&
        known->size() == 1) {
      const bool adds = node.op == "Unsqueeze";
      const int64_t at = (*known)[0] < 0 ? (*known)[0] + rank + (adds ? 0 : 1) : (*known)[0];
      return adds ? axis - (axis > at ? 1 : 0) : axis + (axis >= at ? 1 : 0);
    }
    // One layer of a state that holds those of all.
    if (node.op == "Gather" && known.has_value() && node.inputs.size() == 3 &&
        graph_.info(node.inputs[1]).shape.has_rank() &&
        graph_.info(node.inputs[1]).shape.rank() == 0) {
      const std::optional<std::vector<int64_t>> at = Known(node.inputs[2]);
      if (at.has_value() && at->size() == 1) {
        const int64_t taken = (*at)[0] < 0 ? (*at)[0] + rank + 1 : (*at)[0];
        return axis + (axis >= taken ? 1 : 0);
      }
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const int parameter_;
  const int axis_;
  int visited_ = 0;
};

// The axis on which the graph joins the state with one value whose extent inference does not find,
// because masks as transformers computes them hide it; else -1.
int JoinedAxis(const Graph& graph, int parameter, ValueId next) {
  const Node& node = graph.node(next.node);
  const ValueId state{parameter, 0};
  if (node.op != "Concat" || node.inputs.size() != 2 ||
      (node.inputs[0] == state) == (node.inputs[1] == state)) {
    return -1;
  }
  const PartialShape& added = graph.info(node.inputs[node.inputs[0] == state ? 1 : 0]).shape;
  const PartialShape& shape = graph.node(parameter).outputs[0].shape;
  const int64_t joined = node.attributes.Int("axis", 0).value_or(0);
  const auto axis = static_cast<int>(joined < 0 ? joined + shape.rank() : joined);
  const bool fits = axis > 0 && axis < shape.rank() && shape.dim(axis) < 0 && added.has_rank() &&
                    added.rank() == shape.rank() && added.dim(axis) < 0;
  return fits ? axis : -1;
}

}  // namespace

int GrowingAxis(const Graph& graph, int parameter, ValueId next) {
  const PartialShape& state = graph.node(parameter).outputs[0].shape;
  const PartialShape& shape = graph.info(next).shape;
  if (!state.has_rank() || !shape.has_rank() || state.rank() != shape.rank()) {
    return -1;
  }
  for (int axis = 1; axis < state.rank(); ++axis) {
    if (state.dim(axis) < 0) {
      const std::optional<Length> length = LengthTracer(graph, parameter, axis).Of(next, axis);
      if (length.has_value() && length->states == 1 && length->number == 1) {
        return axis;
      }
    }
  }
  return JoinedAxis(graph, parameter, next);
}

int GrowingAxis(const Loop& loop, const LoopInput& input) {
  if (input.kind != LoopInput::Kind::kCarried || loop.states_may_change_shape) {
    return -1;
  }
  const int parameter = loop.body.parameters[static_cast<size_t>(input.body_parameter)];
  const int result = loop.body.results[static_cast<size_t>(input.back_edge)];
  return GrowingAxis(loop.body, parameter, loop.body.node(result).inputs[0]);
}

}  // namespace beamwright::ops
