// `beamwright-graph show`: a graph as text for people. The file has two parts. CostOf and
// CountConstants estimate what a node computes and reads; ShowText prints the graph, and with each
// node its cost if that is asked for. show_formats.cc writes the same graph for programs.
#include "tools/graph/show.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ops/base/utf8.h"
#include "ops/graph/graph.h"
#include "ops/import/graph_file.h"
#include "tools/graph/ports.h"

namespace beamwright::ops {

// Estimates what a node costs in a run: multiply-adds, bytes of weights and bytes of activations
// (CostOf), for listings of a graph.
//
// Extents that are unknown count as 1, and the cost is marked as open: it is then for one row, or
// one position. Sums and products saturate (Plus, Times), since shapes of a hostile file may be
// huge. What inference knows already costs nothing.

namespace {

constexpr int64_t kMostCost = int64_t{1} << 62;

int64_t Times(int64_t a, int64_t b) { return a != 0 && b > kMostCost / a ? kMostCost : a * b; }
int64_t Plus(int64_t a, int64_t b) { return a > kMostCost - b ? kMostCost : a + b; }

// Elements of a shape whose unknown extents are 1.
int64_t Elements(const PartialShape& shape, bool& open) {
  open = open || !shape.has_rank();
  int64_t elements = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    open = open || shape.dim(axis) < 0;
    elements = Times(elements, std::max<int64_t>(shape.dim(axis), shape.dim(axis) < 0 ? 1 : 0));
  }
  return elements;
}

int64_t Extent(const PartialShape& shape, int axis) {
  return shape.has_rank() && axis >= 0 && axis < shape.rank()
             ? std::max<int64_t>(shape.dim(axis), 1)
             : 1;
}

bool Flag(const Node& node, const char* name) {
  return node.attributes.Bool(name, false).value_or(false);
}

// A cell multiplies X with W and H with R: each weight meets every row once.
int64_t CellMultiplyAdds(const Node& node, absl::Span<const InputInfo> inputs, int64_t rows) {
  const size_t first = node.op == "LSTMCell" ? 3 : 2;
  const bool joined = node.op == "LSTMCell" && Flag(node, "weights_joined");
  int64_t weights = 0;
  bool open = false;
  for (size_t i = first; i < std::min(inputs.size(), first + (joined ? 1 : 2)); ++i) {
    weights = Plus(weights, inputs[i].shape.has_rank() ? Elements(inputs[i].shape, open) : 0);
  }
  return Times(rows, weights);
}

// Counted are operators that a model spends its time in: products, cells and convolutions.
int64_t MultiplyAdds(const Node& node, absl::Span<const InputInfo> inputs, bool& open) {
  if (node.outputs.empty() || inputs.size() < 2) {
    return 0;
  }
  const PartialShape& out = node.outputs[0].shape;
  if (node.op == "MatMul") {
    const PartialShape& a = inputs[0].shape;
    const int depth = Flag(node, "transpose_a") && a.rank() > 1 ? a.rank() - 2 : a.rank() - 1;
    open = open || !a.has_rank() || (a.rank() > 0 && a.dim(depth) < 0);
    return Times(Elements(out, open), Extent(a, depth));
  }
  if (node.op == "LSTMCell" || node.op == "GRUCell" || node.op == "RNNCell") {
    return CellMultiplyAdds(node, inputs, Extent(out, 0));
  }
  if (node.op == "Convolution" && inputs[1].shape.has_rank()) {
    // A filter [channels out, channels in, ...] meets every position of the output.
    return Times(Elements(out, open), Elements(inputs[1].shape, open) / Extent(inputs[1].shape, 0));
  }
  return 0;
}

}  // namespace

NodeCost CostOf(const Graph& graph, const GraphInfo& info, int index) {
  const Node& node = graph.node(index);
  NodeCost cost;
  if (node.op == "Parameter" || node.op == "Constant" || node.op == "Result" ||
      info.IsKnown(index)) {
    return cost;
  }
  const std::vector<InputInfo> inputs = info.InputsOf(graph, node);
  cost.multiply_adds = MultiplyAdds(node, inputs, cost.open);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == DType::kUndefined) {
      continue;
    }
    const bool known = inputs[i].value != nullptr;
    // Of a table that rows are taken from, as many are read as are taken.
    const bool table = i == 0 && (node.op == "Gather" || node.op.starts_with("Embedding"));
    const int64_t bytes =
        table ? 0 : Times(Elements(inputs[i].shape, cost.open), SizeOf(inputs[i].dtype));
    (known ? cost.weight_bytes : cost.activation_bytes) =
        Plus(known ? cost.weight_bytes : cost.activation_bytes, bytes);
  }
  for (const ValueInfo& output : node.outputs) {
    if (output.dtype != DType::kUndefined) {
      cost.activation_bytes = Plus(cost.activation_bytes,
                                   Times(Elements(output.shape, cost.open), SizeOf(output.dtype)));
    }
  }
  return cost;
}

std::string ToText(const NodeCost& cost) {
  std::vector<std::string> parts;
  if (cost.multiply_adds > 0) {
    parts.push_back(absl::StrCat(cost.multiply_adds, " multiply-adds"));
  }
  if (cost.weight_bytes > 0) {
    parts.push_back(absl::StrCat(cost.weight_bytes, " bytes of weights"));
  }
  if (cost.activation_bytes > 0) {
    parts.push_back(absl::StrCat(cost.activation_bytes, " bytes of activations"));
  }
  return absl::StrJoin(parts, ", ");
}

namespace {

void Count(const Graph& graph, absl::flat_hash_set<const std::byte*>& seen,
           ConstantTotals& totals) {
  for (const Node& node : graph.nodes) {
    if (node.op == "Constant" && seen.insert(node.constant.place()).second) {
      ++totals.tensors;
      totals.elements += node.constant.num_elements();
      totals.bytes += node.constant.num_bytes();
    }
    VisitBodies(node, [&](const Graph& body, absl::string_view) { Count(body, seen, totals); });
  }
}

// Also in bodies of loops and branches; `where` is the way to the body that is looked at.
void CollectUnsupported(const Graph& graph, const OperatorSet& operators, const std::string& where,
                        std::vector<std::string>& found) {
  for (const Node& node : graph.nodes) {
    if (node.op == "Parameter" || node.op == "Constant" || node.op == "Result") {
      continue;
    }
    if (operators.Find(node.op) == nullptr && !node.attributes.Has(kHiddenOperator)) {
      found.push_back(absl::StrCat(where, Describe(node)));
    }
    VisitBodies(node, [&](const Graph& body, absl::string_view what) {
      const bool is_loop = node.loop != nullptr;
      CollectUnsupported(
          body, operators,
          absl::StrCat(where, Describe(node), is_loop ? "" : ", ", is_loop ? "" : what, ": "),
          found);
    });
  }
}

}  // namespace

ConstantTotals CountConstants(const Graph& graph) {
  ConstantTotals totals;
  absl::flat_hash_set<const std::byte*> seen;
  Count(graph, seen, totals);
  return totals;
}

std::vector<std::string> UnsupportedNodes(const Graph& graph, const OperatorSet& operators) {
  std::vector<std::string> found;
  CollectUnsupported(graph, operators, "", found);
  return found;
}

// Prints a graph as text, for `beamwright-graph show`: its ports with types and shapes, the extents
// that are open, and every node on a line, for example
//
//   12 MatMul 'decoder/proj' (10, 11) f32[?,512]
//
// with the numbers of the nodes that it reads. A loop is followed by the rules of its inputs and
// outputs (slice, state, invariant) and its body, indented; an If by both branches. Names come from
// files and are printed with control characters escaped.

namespace {

// Names come from a file that may be hostile to terminals.
std::string Quoted(absl::string_view name) { return absl::StrCat("'", Printable(name), "'"); }

std::string TypeAndShape(const ValueInfo& info) {
  return absl::StrCat(info.dtype == DType::kUndefined ? "?" : Name(info.dtype),
                      info.shape.ToString());
}

std::string Text(int64_t value) { return absl::StrCat(value); }
std::string Text(double value) { return absl::StrCat(value); }
std::string Text(bool value) { return value ? "true" : "false"; }
std::string Text(const std::string& value) { return Printable(value); }
template <typename T>
std::string Text(const std::vector<T>& values) {
  return absl::StrCat(
      "[",
      absl::StrJoin(values, ", ",
                    [](std::string* out, const T& value) { absl::StrAppend(out, Text(value)); }),
      "]");
}

std::string InputsText(const Graph& graph, const Node& node) {
  return absl::StrJoin(node.inputs, ", ", [&](std::string* out, ValueId id) {
    if (!id.present()) {
      absl::StrAppend(out, "-");
    } else if (graph.node(id.node).outputs.size() == 1) {
      absl::StrAppend(out, id.node);
    } else {
      absl::StrAppend(out, id.node, ":", id.output);
    }
  });
}

class Printer {
 public:
  explicit Printer(const ShowOptions& options) : options_(options) {}

  std::string Run(const Graph& graph) {
    Line("graph ", Quoted(graph.name));
    for (const std::string& remark : options_.remarks) {
      Line("remark: ", Printable(remark));
    }
    PrintPorts("inputs", graph, graph.parameters);
    PrintPorts("outputs", graph, graph.results);
    PrintOpenAxes(graph);
    const ConstantTotals totals = CountConstants(graph);
    Line("constants: ", totals.tensors, " tensors, ", totals.elements, " elements, ", totals.bytes,
         " bytes");
    Line("nodes: number, operator, name, (inputs), types and shapes of its outputs");
    PrintNodes(graph);
    return std::move(text_);
  }

 private:
  template <typename... Pieces>
  void Line(const Pieces&... pieces) {
    absl::StrAppend(&text_, std::string(static_cast<size_t>(indent_), ' '), pieces..., "\n");
  }

  void PrintPorts(absl::string_view title, const Graph& graph, const std::vector<int>& nodes) {
    Line(title, ":");
    const std::vector<std::string> names = UniquePortNames(graph, nodes);
    size_t width = 0;
    for (const std::string& name : names) {
      width = std::max(width, std::min<size_t>(Quoted(name).size(), 40));
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph.node(nodes[i]);
      const ValueInfo& info = node.op == "Result" ? graph.info(node.inputs[0]) : node.outputs[0];
      Line("  ", absl::StrFormat("%-*s", static_cast<int>(width), Quoted(names[i])), "  ",
           TypeAndShape(info));
    }
  }

  // The axes whose extents may differ from run to run.
  void PrintOpenAxes(const Graph& graph) {
    const std::vector<std::string> names = UniquePortNames(graph, graph.parameters);
    std::vector<std::string> open;
    for (size_t i = 0; i < names.size(); ++i) {
      const PartialShape& shape = graph.node(graph.parameters[i]).outputs[0].shape;
      std::vector<std::string> axes;
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape.dim(axis) == PartialShape::kDynamic) {
          axes.push_back(absl::StrCat(axis));
        }
      }
      if (!shape.has_rank()) {
        open.push_back(absl::StrCat(Quoted(names[i]), " in rank"));
      } else if (!axes.empty()) {
        open.push_back(absl::StrCat(Quoted(names[i]), " on axis ", absl::StrJoin(axes, ", ")));
      }
    }
    Line("open extents: ", open.empty() ? "none" : absl::StrJoin(open, "; "));
  }

  void PrintNodes(const Graph& graph) {
    indent_ += 2;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      PrintNode(graph, static_cast<int>(i));
    }
    indent_ -= 2;
  }

  void PrintNode(const Graph& graph, int index) {
    const Node& node = graph.node(index);
    std::string line = absl::StrCat(index, " ", Printable(node.op), " ", Quoted(node.name));
    if (!node.inputs.empty()) {
      absl::StrAppend(&line, " (", InputsText(graph, node), ")");
    }
    if (!node.outputs.empty()) {
      absl::StrAppend(
          &line, " ",
          absl::StrJoin(node.outputs, ", ", [](std::string* out, const ValueInfo& info) {
            absl::StrAppend(out, TypeAndShape(info));
          }));
    }
    for (const auto& [name, value] : node.attributes.values()) {
      if (name == kFileOperator) {
        continue;
      }
      absl::StrAppend(&line, " ", Printable(name), "=",
                      std::visit([](const auto& v) { return Text(v); }, value));
    }
    const std::string note = options_.note ? options_.note(graph, index) : "";
    const std::string cost = options_.cost ? ToText(options_.cost(graph, index)) : "";
    absl::StrAppend(&line, note.empty() && cost.empty() ? "" : "  # ", note,
                    note.empty() || cost.empty() ? "" : "; ", cost);
    Line(line);
    if (node.loop != nullptr) {
      indent_ += 4;
      PrintLoop(*node.loop);
      indent_ -= 4;
    }
    if (node.branches != nullptr) {
      indent_ += 4;
      Line("input ", node.branches->condition_input, ": which branch runs");
      PrintBranch("then branch:", node.branches->then_branch);
      PrintBranch("else branch:", node.branches->else_branch);
      indent_ -= 4;
    }
  }

  void PrintBranch(absl::string_view title, const Branch& branch) {
    Line(title);
    indent_ += 2;
    const auto name = [&](int node) { return Quoted(branch.body.node(node).name); };
    for (size_t i = 0; i < branch.inputs.size(); ++i) {
      Line("input ", branch.inputs[i], " -> ", name(branch.body.parameters[i]));
    }
    for (size_t i = 0; i < branch.results.size(); ++i) {
      Line("result ", name(branch.body.results[static_cast<size_t>(branch.results[i])]),
           " -> output ", i);
    }
    PrintNodes(branch.body);
    indent_ -= 2;
  }

  // The rules in the order in which a run meets them: when it starts, what each iteration sees,
  // what comes out, when it goes on; the body last.
  void PrintLoop(const Loop& loop) {
    const auto parameter = [&](int i) {
      return Quoted(loop.body.node(loop.body.parameters[static_cast<size_t>(i)]).name);
    };
    const auto result = [&](int i) {
      return Quoted(loop.body.node(loop.body.results[static_cast<size_t>(i)]).name);
    };
    if (loop.trip_count_input >= 0) {
      Line("input ", loop.trip_count_input, ": number of iterations at most");
    }
    if (loop.condition_input >= 0) {
      Line("input ", loop.condition_input, ": whether to start");
    }
    if (loop.items != Loop::Items::kTogether) {
      Line(loop.items == Loop::Items::kApart ? "each batch item runs alone"
                                             : "batch items past their length hold their states");
    }
    if (loop.lengths_input >= 0) {
      Line("input ", loop.lengths_input, ": length of each batch item");
    }
    if (loop.states_may_change_shape) {
      Line("states may change their shape");
    }
    for (const LoopInput& rule : loop.inputs) {
      PrintLoopInput(rule, parameter(rule.body_parameter),
                     rule.back_edge >= 0 ? result(rule.back_edge) : "");
    }
    for (const LoopOutput& rule : loop.outputs) {
      PrintLoopOutput(rule, result(rule.body_result));
    }
    if (loop.condition_result >= 0) {
      Line("goes on while body result ", result(loop.condition_result), " is true");
    }
    Line("body:");
    PrintNodes(loop.body);
  }

  void PrintLoopInput(const LoopInput& rule, const std::string& parameter,
                      const std::string& back_edge) {
    const std::string from =
        absl::StrCat("input ", rule.input, " (port ", rule.external_id, ") -> body ", parameter);
    switch (rule.kind) {
      case LoopInput::Kind::kSliced:
        Line(from, ": slices of axis ", rule.axis, ", elements ", rule.start, " to ", rule.end,
             rule.stride > 0 ? ", forward" : ", backward", ", parts of ", rule.part_size,
             rule.drop_axis ? ", axis dropped" : "");
        return;
      case LoopInput::Kind::kCarried:
        Line(from, ": state, later the back edge from body result ", back_edge);
        return;
      case LoopInput::Kind::kInvariant:
        Line(from, ": the same in each iteration");
        return;
      case LoopInput::Kind::kIteration:
        Line("iteration number -> body ", parameter);
        return;
    }
  }

  void PrintLoopOutput(const LoopOutput& rule, const std::string& result) {
    const std::string to = absl::StrCat("body result ", result, " -> output ", rule.output);
    const absl::string_view order = rule.reversed ? ", last iteration first" : "";
    switch (rule.kind) {
      case LoopOutput::Kind::kLastValue:
        Line(to, ": value of the last iteration");
        return;
      case LoopOutput::Kind::kConcatenated:
        Line(to, ": joined along axis ", rule.axis, ", parts of ", rule.part_size, order);
        return;
      case LoopOutput::Kind::kStacked:
        Line(to, ": stacked along the new axis ", rule.axis, order);
        return;
    }
  }

  const ShowOptions& options_;
  std::string text_;
  int indent_ = 0;
};

}  // namespace

std::string ShowText(const Graph& graph, const ShowOptions& options) {
  return Printer(options).Run(graph);
}

}  // namespace beamwright::ops
