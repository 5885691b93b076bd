#include "ops/compile/step_form.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace beamwright::ops {
namespace {

bool IsUnknown(int64_t extent) { return extent == PartialShape::kDynamic; }

int Append(Graph& graph, Node node) {
  graph.nodes.push_back(std::move(node));
  return static_cast<int>(graph.nodes.size()) - 1;
}

ValueId AppendConstant(Graph& graph, DType dtype, const Shape& shape,
                       absl::Span<const int64_t> values) {
  Tensor integers(DType::kI64, shape);
  std::copy(values.begin(), values.end(), integers.mutable_data<int64_t>());
  Node node;
  node.op = "Constant";
  node.constant = dtype == DType::kI64 ? integers : *Convert(integers, dtype);
  node.outputs.push_back({dtype, PartialShape(shape), {}});
  return {Append(graph, std::move(node)), 0};
}

// A node of one output that works on the axes in its second input.
ValueId AppendMove(Graph& graph, const char* op, const std::string& name, ValueId value,
                   absl::Span<const int64_t> axes, std::vector<std::string> names = {}) {
  const ValueId list =
      AppendConstant(graph, DType::kI64, {static_cast<int64_t>(axes.size())}, axes);
  Node node;
  node.op = op;
  node.name = name;
  node.inputs = {value, list};
  node.outputs.push_back({graph.info(value).dtype, PartialShape(), std::move(names)});
  return {Append(graph, std::move(node)), 0};
}

ValueId SwapFirstAxes(Graph& graph, const std::string& name, ValueId value, int rank,
                      std::vector<std::string> names = {}) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[1]);
  return AppendMove(graph, "Transpose", name, value, order, std::move(names));
}

// Copies a graph node by node, so that nodes can be put in between and others left out.
class Copy {
 public:
  explicit Copy(const Graph& from) : from_(from), values_(from.nodes.size()) {
    to.name = from.name;
  }

  // The value that stands for a value of the old graph.
  ValueId Of(ValueId old) const {
    return old.present() ? values_[static_cast<size_t>(old.node)][static_cast<size_t>(old.output)]
                         : old;
  }
  void Set(ValueId old, ValueId value) {
    auto& values = values_[static_cast<size_t>(old.node)];
    values.resize(std::max(values.size(), static_cast<size_t>(old.output) + 1));
    values[static_cast<size_t>(old.output)] = value;
  }
  // The node itself, reading what stands for its inputs.
  int Keep(int index) {
    Node node = from_.node(index);
    for (ValueId& input : node.inputs) {
      input = Of(input);
    }
    const int kept = Append(to, std::move(node));
    for (size_t i = 0; i < from_.node(index).outputs.size(); ++i) {
      Set({index, static_cast<int>(i)}, {kept, static_cast<int>(i)});
    }
    if (from_.node(index).op == "Parameter") {
      to.parameters.push_back(kept);
    } else if (from_.node(index).op == "Result") {
      to.results.push_back(kept);
    }
    return kept;
  }
  // Parameters and Results in the order of the old graph's lists.
  void OrderPorts(const std::vector<int>& kept) {
    const auto order = [&](const std::vector<int>& old, std::vector<int>& list) {
      list.clear();
      for (const int node : old) {
        list.push_back(kept[static_cast<size_t>(node)]);
      }
    };
    order(from_.parameters, to.parameters);
    order(from_.results, to.results);
  }

  Graph to;

 private:
  const Graph& from_;
  std::vector<std::vector<ValueId>> values_;
};

// Whether a loop runs exactly once, and its outputs can be told apart from what it reads.
bool RunsOnce(const Graph& graph, const Node& node) {
  const Loop& loop = *node.loop;
  if (loop.items == Loop::Items::kApart || loop.lengths_input >= 0 || loop.trip_count_input >= 0 ||
      loop.condition_input >= 0 || loop.condition_result >= 0) {
    return false;
  }
  bool once = false;
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
  // Reading an input straight through would give one value two names.
  for (const LoopOutput& output : loop.outputs) {
    const Node& result = loop.body.node(loop.body.results[static_cast<size_t>(output.body_result)]);
    const Node& source = loop.body.node(result.inputs[0].node);
    const bool scalar_part = output.kind == LoopOutput::Kind::kConcatenated &&
                             !(loop.body.info(result.inputs[0]).shape.has_rank() &&
                               loop.body.info(result.inputs[0]).shape.rank() > 0);
    if (source.op == "Parameter" || source.op == "Constant" || scalar_part) {
      return false;
    }
  }
  return once;
}

// Puts a loop's body in its place; `outer` knows the values that the loop reads.
void Inline(const Node& node, int index, Copy& outer) {
  const Loop& loop = *node.loop;
  const Graph& body = loop.body;
  Graph& to = outer.to;
  std::vector<std::vector<ValueId>> inside(body.nodes.size());
  for (const LoopInput& rule : loop.inputs) {
    const int parameter = body.parameters[static_cast<size_t>(rule.body_parameter)];
    if (rule.kind == LoopInput::Kind::kIteration) {
      const ValueInfo& info = body.node(parameter).outputs[0];
      const Shape shape = info.shape.has_rank() && info.shape.rank() == 1 ? Shape{1} : Shape{};
      inside[static_cast<size_t>(parameter)] = {AppendConstant(to, info.dtype, shape, {int64_t{0}})};
      continue;
    }
    ValueId value = outer.Of(node.inputs[static_cast<size_t>(rule.input)]);
    if (rule.kind == LoopInput::Kind::kSliced && rule.drop_axis) {
      value = AppendMove(to, "Squeeze", node.name, value, {rule.axis});
    }
    inside[static_cast<size_t>(parameter)] = {value};
  }
  const auto of = [&](ValueId value) {
    return value.present()
               ? inside[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]
               : value;
  };
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& old = body.nodes[i];
    if (old.op == "Parameter" || old.op == "Result") {
      continue;
    }
    Node copy = old;
    for (ValueId& input : copy.inputs) {
      input = of(input);
    }
    const int kept = Append(to, std::move(copy));
    for (size_t k = 0; k < old.outputs.size(); ++k) {
      inside[i].push_back({kept, static_cast<int>(k)});
    }
  }
  for (const LoopOutput& output : loop.outputs) {
    const auto at = static_cast<size_t>(output.output);
    ValueId value = of(body.node(body.results[static_cast<size_t>(output.body_result)]).inputs[0]);
    if (output.kind == LoopOutput::Kind::kStacked) {
      value = AppendMove(to, "Unsqueeze", node.name, value, {output.axis});
    }
    // Results bear the names of the values that they read.
    std::vector<std::string>& names =
        to.node(value.node).outputs[static_cast<size_t>(value.output)].names;
    names.insert(names.begin(), node.outputs[at].names.begin(), node.outputs[at].names.end());
    outer.Set({index, output.output}, value);
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
  Copy copy(graph);
  std::vector<int> kept(graph.nodes.size(), -1);
  const auto find = [&](size_t node, const std::vector<int>& list, int StepState::*member) {
    return std::find_if(states.begin(), states.end(), [&](const StepState& state) {
      return list[static_cast<size_t>(state.*member)] == static_cast<int>(node);
    });
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == "Result" && find(i, graph.results, &StepState::result) != states.end()) {
      const auto state = find(i, graph.results, &StepState::result);
      const int parameter = graph.parameters[static_cast<size_t>(state->parameter)];
      const int rank = graph.node(parameter).outputs[0].shape.rank();
      const std::vector<std::string> names = graph.info(node.inputs[0]).names;
      Node result = node;
      result.inputs = {SwapFirstAxes(copy.to, PortName(graph, static_cast<int>(i)),
                                     copy.Of(node.inputs[0]), rank, names)};
      kept[i] = Append(copy.to, std::move(result));
      continue;
    }
    kept[i] = copy.Keep(static_cast<int>(i));
    if (node.op == "Parameter" &&
        find(i, graph.parameters, &StepState::parameter) != states.end()) {
      std::vector<int64_t> dims(node.outputs[0].shape.dims().begin(),
                                node.outputs[0].shape.dims().end());
      const int rank = static_cast<int>(dims.size());
      std::swap(dims[0], dims[1]);
      copy.to.node(kept[i]).outputs[0].shape = PartialShape(Shape(dims.begin(), dims.end()));
      copy.Set({static_cast<int>(i), 0},
               SwapFirstAxes(copy.to, PortName(graph, static_cast<int>(i)), {kept[i], 0}, rank));
    }
  }
  copy.OrderPorts(kept);
  graph = std::move(copy.to);
}

bool InlineSingleIterations(Graph& graph) {
  std::vector<bool> once(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    once[i] = graph.nodes[i].op == "Loop" && RunsOnce(graph, graph.nodes[i]);
  }
  if (std::find(once.begin(), once.end(), true) == once.end()) {
    return false;
  }
  Copy copy(graph);
  std::vector<int> kept(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (once[i]) {
      Inline(graph.nodes[i], static_cast<int>(i), copy);
    } else {
      kept[i] = copy.Keep(static_cast<int>(i));
    }
  }
  copy.OrderPorts(kept);
  graph = std::move(copy.to);
  return true;
}

}  // namespace beamwright::ops
