// Two rewrites of step graphs.
//
// InlineSingleIterations (loop unrolling for one iteration): a loop that runs exactly once is
// replaced by its body. RunsOnce proves it: a sliced axis of extent 1, a trip count of 1, or a
// condition that is false behind the first iteration (EndsAfterOne computes it from the known
// inputs). Loops inside other loops are inlined too.
//
//   before: Loop(tokens [rows, 1] sliced on axis 1; h)
//   after:  the body, which reads Squeeze(tokens) and h; Unsqueeze of stacked outputs
//
// MoveRowsFirst: states [layers, rows, ..] become [rows, layers, ..] outside of the graph, with a
// Transpose behind each Parameter and in front of each Result, so that the layers inside see what
// they saw. Later passes remove most transposes.
#include "ops/decoder/step_form.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/compile/program.h"
#include "ops/graph/rewrite.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

bool IsUnknown(int64_t extent) { return extent == PartialShape::kDynamic; }

// The axes that change places; rank 0: none.
struct Swap {
  int rank = 0;
  int axis = 0;  // with axis 0
};

ValueId SwapAxes(Graph& graph, const std::string& name, ValueId value, const Swap& swap) {
  std::vector<int64_t> order(static_cast<size_t>(swap.rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[static_cast<size_t>(swap.axis)]);
  return AppendWithList(graph, "Transpose", name, value, order);
}

// The value of input `input` of a node, if it is known at load; else null.
const Tensor* KnownInput(const Node& node, int input, const GraphInfo* info) {
  const ValueId id = input < 0 ? ValueId() : node.inputs[static_cast<size_t>(input)];
  if (info == nullptr || !id.present()) {
    return nullptr;
  }
  const Tensor& known =
      info->constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  return known.has_value() ? &known : nullptr;
}

// The number of the first iteration, as a loop's body declares it.
Tensor IterationZero(const ValueInfo& declared) {
  const bool list = declared.shape.has_rank() && declared.shape.rank() == 1;
  const Tensor zero = Tensor::Of<int64_t>(list ? Shape{1} : Shape{}, std::vector<int64_t>{0});
  return *Convert(zero, declared.dtype);
}

// The number that input `input` of a node has, if it is known at load.
std::optional<int64_t> KnownNumber(const Node& node, int input, const GraphInfo* info) {
  const Tensor* const known = KnownInput(node, input, info);
  const auto values = known == nullptr || known->num_elements() != 1
                          ? std::vector<int64_t>()
                          : ToInt64(*known).value_or(std::vector<int64_t>());
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

// Whether the condition of a loop is known to be false behind its first iteration: computed from
// what is known of its inputs, such as a counter that starts with 0.
bool EndsAfterOne(const Node& node, const GraphInfo* info) {
  const Loop& loop = *node.loop;
  if (loop.condition_result < 0) {
    return false;
  }
  const int result = loop.body.results[static_cast<size_t>(loop.condition_result)];
  const ValueId wanted{result, 0};
  const std::vector<bool> needed = AncestorsOf(loop.body, {&wanted, 1});
  Graph first = loop.body;
  for (const LoopInput& rule : loop.inputs) {
    const int parameter = loop.body.parameters[static_cast<size_t>(rule.body_parameter)];
    if (!needed[static_cast<size_t>(parameter)] || rule.kind == LoopInput::Kind::kSliced) {
      continue;
    }
    Node& entering = first.node(parameter);
    const Tensor* const known =
        rule.kind == LoopInput::Kind::kIteration ? nullptr : KnownInput(node, rule.input, info);
    if (rule.kind == LoopInput::Kind::kIteration) {
      entering.constant = IterationZero(entering.outputs[0]);
    } else if (known != nullptr) {
      entering.constant = *known;
    }
    if (entering.constant.has_value()) {
      entering.op = "Constant";
      entering.outputs[0].shape = PartialShape(entering.constant.shape());
      first.parameters.erase(
          std::find(first.parameters.begin(), first.parameters.end(), parameter));
    }
  }
  first = KeepNodes(first, needed);
  const absl::StatusOr<GraphInfo> found = InferGraph(first, Operators());
  const ValueId last = first.node(first.results[0]).inputs[0];
  const Tensor* const value =
      found.ok()
          ? &found->constants[static_cast<size_t>(last.node)][static_cast<size_t>(last.output)]
          : nullptr;
  return value != nullptr && value->has_value() && value->num_elements() == 1 &&
         ToInt64(*value).value_or(std::vector<int64_t>{1})[0] == 0;
}

// A `while` over a single token, as TensorFlow writes recurrent layers: it begins, and does one
// iteration at most.
bool CountsToOne(const Node& node, const GraphInfo* info) {
  const Loop& loop = *node.loop;
  if (loop.condition_input >= 0 && KnownNumber(node, loop.condition_input, info) != 1) {
    return false;
  }
  const std::optional<int64_t> trips = KnownNumber(node, loop.trip_count_input, info);
  const bool begins = loop.trip_count_input < 0 || (trips.has_value() && *trips != 0);
  return begins && (trips == 1 || EndsAfterOne(node, info));
}

// Whether a loop runs exactly once, and what it gives is known by its body's results.
bool RunsOnce(const Graph& graph, const Node& node, const GraphInfo* info) {
  const Loop& loop = *node.loop;
  const bool counts =
      loop.trip_count_input >= 0 || loop.condition_input >= 0 || loop.condition_result >= 0;
  if (loop.items == Loop::Items::kApart || loop.lengths_input >= 0 ||
      (counts && !CountsToOne(node, info))) {
    return false;
  }
  bool once = counts;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kSliced) {
      const PartialShape& shape = graph.info(node.inputs[static_cast<size_t>(rule.input)]).shape;
      if (!shape.has_rank() || shape.rank() == 0 || rule.part_size != 1 ||
          shape.dim(static_cast<int>(rule.axis < 0 ? rule.axis + shape.rank() : rule.axis)) != 1) {
        return false;
      }
      once = true;
    }
  }
  // Joining scalars makes a list of them.
  for (const LoopOutput& output : loop.outputs) {
    const Node& result = loop.body.node(loop.body.results[static_cast<size_t>(output.body_result)]);
    const PartialShape& part = loop.body.info(result.inputs[0]).shape;
    if (output.kind == LoopOutput::Kind::kConcatenated && !(part.has_rank() && part.rank() > 0)) {
      return false;
    }
  }
  return once;
}

// Puts the body of loop `index` in its place.
void InlineLoop(const Node& node, int index, GraphCopy& copy) {
  const Loop& loop = *node.loop;
  Graph& to = copy.to();
  std::vector<ValueId> parameters(loop.body.parameters.size());
  for (const LoopInput& rule : loop.inputs) {
    const auto at = static_cast<size_t>(rule.body_parameter);
    if (rule.kind == LoopInput::Kind::kIteration) {
      const ValueInfo& number = loop.body.node(loop.body.parameters[at]).outputs[0];
      parameters[at] = AppendConstant(to, node.name, IterationZero(number));
      continue;
    }
    parameters[at] = copy.Of(node.inputs[static_cast<size_t>(rule.input)]);
    if (rule.kind == LoopInput::Kind::kSliced && rule.drop_axis) {
      parameters[at] = AppendWithList(to, "Squeeze", node.name, parameters[at], {rule.axis});
    }
  }
  const std::vector<ValueId> results = copy.Inline(loop.body, parameters);
  for (const LoopOutput& output : loop.outputs) {
    ValueId value = results[static_cast<size_t>(output.body_result)];
    if (output.kind == LoopOutput::Kind::kStacked) {
      value = AppendWithList(to, "Unsqueeze", node.name, value, {output.axis});
    }
    copy.Replace({index, output.output}, value);
  }
}

}  // namespace

int TokenRowAxis(const PartialShape& tokens) {
  return tokens.has_rank() && tokens.rank() == 2 && tokens.dim(0) == 1 && IsUnknown(tokens.dim(1))
             ? 1
             : 0;
}

bool CountsRowsSecond(const Graph& graph, int tokens, int parameter) {
  const auto shape_of = [&](int index) -> const PartialShape& {
    return graph.node(graph.parameters[static_cast<size_t>(index)]).outputs[0].shape;
  };
  const PartialShape& read = shape_of(tokens);
  const PartialShape& shape = shape_of(parameter);
  const bool rows_are_open =
      !read.has_rank() || std::any_of(read.dims().begin(), read.dims().end(), IsUnknown);
  return rows_are_open && shape.has_rank() && shape.rank() >= 3 && !IsUnknown(shape.dim(0)) &&
         IsUnknown(shape.dim(1));
}

void MoveRowsFirst(Graph& graph, absl::Span<const StepState> states) {
  std::vector<Swap> of_result(graph.nodes.size());  // by node
  std::vector<Swap> of_parameter(graph.nodes.size());
  for (const StepState& state : states) {
    const int parameter = graph.parameters[static_cast<size_t>(state.parameter)];
    const Swap swap = {graph.node(parameter).outputs[0].shape.rank(), state.rows_axis};
    of_parameter[static_cast<size_t>(parameter)] = swap;
    of_result[static_cast<size_t>(graph.results[static_cast<size_t>(state.result)])] = swap;
  }
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    Node node = copy.Moved(index);
    if (of_result[i].rank > 0) {
      node.inputs[0] = SwapAxes(copy.to(), PortName(graph, index), node.inputs[0], of_result[i]);
    }
    if (const Swap& swap = of_parameter[i]; swap.rank > 0) {
      Shape dims = node.outputs[0].shape.dims();
      std::swap(dims[0], dims[static_cast<size_t>(swap.axis)]);
      node.outputs[0].shape = PartialShape(std::move(dims));
      const ValueId value = copy.Keep(index, std::move(node));
      copy.Replace({index, 0}, SwapAxes(copy.to(), PortName(graph, index), value, swap));
    } else {
      copy.Keep(index, std::move(node));
    }
  }
  graph = std::move(copy).Finish();
}

std::optional<Graph> InlineSingleIterations(const Graph& graph, const GraphInfo* info) {
  // Loops that change: nothing, the body takes the loop's place; else the new body.
  std::map<int, std::optional<Graph>> changed;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != "Loop") {
      continue;
    }
    const GraphInfo* const inside = info == nullptr ? nullptr : info->bodies[i][0].get();
    if (RunsOnce(graph, node, info)) {
      changed.emplace(i, std::nullopt);
    } else if (std::optional<Graph> body = InlineSingleIterations(node.loop->body, inside)) {
      changed.emplace(i, std::move(body));
    }
  }
  // Without a change no copy of the graph is made.
  if (changed.empty()) {
    return std::nullopt;
  }
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    const auto found = changed.find(index);
    if (found == changed.end()) {
      copy.Keep(index);
    } else if (!found->second.has_value()) {
      InlineLoop(graph.nodes[i], index, copy);
    } else {
      Node node = copy.Moved(index);
      auto loop = std::make_shared<Loop>(*node.loop);
      loop->body = *std::move(found->second);
      node.loop = std::move(loop);
      copy.Keep(index, std::move(node));
    }
  }
  return std::move(copy).Finish();
}

}  // namespace beamwright::ops
