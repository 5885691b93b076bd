// A graph for programs: as JSON (ShowJson), and as Graphviz text (ShowDot).
//
// Both walk over the nodes in the order of the file and enter the bodies of loops and branches. A
// node is named by its number, since names in files need be neither unique nor printable; every
// text from the file is escaped.
//
// JSON of a graph of one node, y = Relu(x), without its remarks, constants and outputs of values:
//
//   {"graph": {"name": "g",
//     "inputs": [{"name": "x", "node": 0, "type": "f32", "shape": [-1, 8]}],
//     "outputs": [{"name": "y", "node": 2, ...}],
//     "nodes": [{"op": "Parameter", ...}, {"op": "Relu", "inputs": [{"node": 0, "output": 0}],
//     ...},
//               {"op": "Result", ...}]}}
//
// The same as Graphviz text:
//
//   digraph "g" {
//     n0 [label="Parameter\nx\nf32[?, 8]" style=filled fillcolor=lightblue];
//     n1 [label="Relu\nrelu\nf32[?, 8]"];
//     n0 -> n1 [label=""];
//   }

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/base/json_writer.h"
#include "ops/base/utf8.h"
#include "ops/graph/graph.h"
#include "tools/graph/ports.h"
#include "tools/graph/show.h"

namespace beamwright::ops {

// Writes a graph as JSON, for programs that read `beamwright-graph show --json`: the same contents
// as show.cc, nodes by number, with loops and branches as objects within their node. Extents
// that are open are -1, an unknown rank is null.

namespace {

class Writer {
 public:
  explicit Writer(const ShowOptions& options) : options_(options) {}

  std::string Run(const Graph& graph) {
    const ConstantTotals totals = CountConstants(graph);
    json_.BeginObject();
    json_.Key("remarks").BeginArray();
    for (const std::string& remark : options_.remarks) {
      json_.String(remark);
    }
    json_.EndArray();
    json_.Key("constants").BeginObject();
    json_.Key("tensors").Int(totals.tensors);
    json_.Key("elements").Int(totals.elements);
    json_.Key("bytes").Int(totals.bytes);
    json_.EndObject();
    json_.Key("graph");
    WriteGraph(graph);
    json_.EndObject();
    return absl::StrCat(json_.text(), "\n");
  }

 private:
  void WriteGraph(const Graph& graph) {
    json_.BeginObject();
    json_.Key("name").String(graph.name);
    WritePorts("inputs", graph, graph.parameters);
    WritePorts("outputs", graph, graph.results);
    json_.Key("nodes").BeginArray();
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      WriteNode(graph, static_cast<int>(i));
    }
    json_.EndArray();
    json_.EndObject();
  }

  // Members of an object that the caller has begun. Unknown extents are -1, an unknown rank null.
  void WriteInfo(const ValueInfo& info) {
    json_.Key("type").String(Name(info.dtype));
    json_.Key("shape");
    if (!info.shape.has_rank()) {
      json_.Null();
      return;
    }
    json_.BeginArray();
    for (const int64_t dim : info.shape.dims()) {
      json_.Int(dim);
    }
    json_.EndArray();
  }

  void WritePorts(absl::string_view key, const Graph& graph, const std::vector<int>& nodes) {
    const std::vector<std::string> names = UniquePortNames(graph, nodes);
    json_.Key(key).BeginArray();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph.node(nodes[i]);
      json_.BeginObject();
      json_.Key("name").String(names[i]);
      json_.Key("node").Int(nodes[i]);
      WriteInfo(node.op == "Result" ? graph.info(node.inputs[0]) : node.outputs[0]);
      json_.EndObject();
    }
    json_.EndArray();
  }

  // Everything of a node in one object: what it reads, by number; types and shapes of its outputs;
  // attributes but for the name that the file gave the operator; the caller's note and the cost;
  // bodies last.
  void WriteNode(const Graph& graph, int index) {
    const Node& node = graph.node(index);
    json_.BeginObject();
    json_.Key("op").String(node.op);
    json_.Key("name").String(node.name);
    json_.Key("inputs").BeginArray();
    for (const ValueId id : node.inputs) {
      json_.BeginObject().Key("node").Int(id.node).Key("output").Int(id.output).EndObject();
    }
    json_.EndArray();
    json_.Key("outputs").BeginArray();
    for (const ValueInfo& info : node.outputs) {
      json_.BeginObject();
      WriteInfo(info);
      json_.EndObject();
    }
    json_.EndArray();
    json_.Key("attributes").BeginObject();
    for (const auto& [name, value] : node.attributes.values()) {
      if (name == kFileOperator) {
        continue;
      }
      json_.Key(name);
      std::visit([this](const auto& v) { WriteValue(v); }, value);
    }
    json_.EndObject();
    if (options_.note) {
      json_.Key("note").String(options_.note(graph, index));
    }
    if (options_.cost) {
      const NodeCost cost = options_.cost(graph, index);
      json_.Key("cost").BeginObject();
      json_.Key("multiply_adds").Int(cost.multiply_adds);
      json_.Key("weight_bytes").Int(cost.weight_bytes);
      json_.Key("activation_bytes").Int(cost.activation_bytes);
      json_.Key("open").Bool(cost.open);
      json_.EndObject();
    }
    if (node.loop != nullptr) {
      json_.Key("loop");
      WriteLoop(*node.loop);
    }
    if (node.branches != nullptr) {
      json_.Key("condition_input").Int(node.branches->condition_input);
      json_.Key("then");
      WriteBranch(node.branches->then_branch);
      json_.Key("else");
      WriteBranch(node.branches->else_branch);
    }
    json_.EndObject();
  }

  void WriteValue(int64_t value) { json_.Int(value); }
  void WriteValue(double value) { json_.Double(value); }
  void WriteValue(bool value) { json_.Bool(value); }
  void WriteValue(const std::string& value) { json_.String(value); }
  template <typename T>
  void WriteValue(const std::vector<T>& values) {
    json_.BeginArray();
    for (const T& value : values) {
      WriteValue(value);
    }
    json_.EndArray();
  }

  // inputs: the node's input for each Parameter of the body; outputs: the body's output for each of
  // the node's.
  void WriteBranch(const Branch& branch) {
    json_.BeginObject();
    json_.Key("inputs").BeginArray();
    for (const int input : branch.inputs) {
      json_.Int(input);
    }
    json_.EndArray();
    json_.Key("outputs").BeginArray();
    for (const int result : branch.results) {
      json_.Int(result);
    }
    json_.EndArray();
    json_.Key("body");
    WriteGraph(branch.body);
    json_.EndObject();
  }

  // Numbers of inputs and results as the graph has them, -1 for one that is not there; the rules of
  // inputs and outputs in their order.
  void WriteLoop(const Loop& loop) {
    constexpr absl::string_view kItems[] = {"together", "held", "apart"};
    json_.BeginObject();
    json_.Key("trip_count_input").Int(loop.trip_count_input);
    json_.Key("condition_input").Int(loop.condition_input);
    json_.Key("condition_result").Int(loop.condition_result);
    json_.Key("states_may_change_shape").Bool(loop.states_may_change_shape);
    json_.Key("items").String(kItems[static_cast<size_t>(loop.items)]);
    json_.Key("lengths_input").Int(loop.lengths_input);
    json_.Key("inputs").BeginArray();
    for (const LoopInput& rule : loop.inputs) {
      WriteLoopInput(rule);
    }
    json_.EndArray();
    json_.Key("outputs").BeginArray();
    for (const LoopOutput& rule : loop.outputs) {
      WriteLoopOutput(rule);
    }
    json_.EndArray();
    json_.Key("body");
    WriteGraph(loop.body);
    json_.EndObject();
  }

  void WriteLoopInput(const LoopInput& rule) {
    constexpr absl::string_view kKinds[] = {"sliced", "carried", "invariant", "iteration"};
    json_.BeginObject();
    json_.Key("kind").String(kKinds[static_cast<size_t>(rule.kind)]);
    json_.Key("input").Int(rule.input);
    json_.Key("external_port").Int(rule.external_id);
    json_.Key("body_input").Int(rule.body_parameter);
    if (rule.kind == LoopInput::Kind::kCarried) {
      json_.Key("back_edge_from_body_output").Int(rule.back_edge);
    }
    if (rule.kind == LoopInput::Kind::kSliced) {
      json_.Key("axis").Int(rule.axis);
      json_.Key("start").Int(rule.start);
      json_.Key("end").Int(rule.end);
      json_.Key("stride").Int(rule.stride);
      json_.Key("part_size").Int(rule.part_size);
      json_.Key("drop_axis").Bool(rule.drop_axis);
    }
    json_.EndObject();
  }

  void WriteLoopOutput(const LoopOutput& rule) {
    constexpr absl::string_view kKinds[] = {"last_value", "concatenated", "stacked"};
    json_.BeginObject();
    json_.Key("kind").String(kKinds[static_cast<size_t>(rule.kind)]);
    json_.Key("output").Int(rule.output);
    json_.Key("body_output").Int(rule.body_result);
    if (rule.kind != LoopOutput::Kind::kLastValue) {
      json_.Key("axis").Int(rule.axis);
      json_.Key("reversed").Bool(rule.reversed);
      json_.Key("part_size").Int(rule.part_size);
    }
    json_.EndObject();
  }

  const ShowOptions& options_;
  JsonWriter json_{JsonWriter::Style::kIndented};
};

}  // namespace

std::string ShowJson(const Graph& graph, const ShowOptions& options) {
  return Writer(options).Run(graph);
}

// A graph as Graphviz text: `beamwright-graph show --dot FILE | dot -Tsvg`.

namespace {

// Text inside a double-quoted label.
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text), {{"\\", "\\\\"}, {"\"", "\\\""}});
}

class DotWriter {
 public:
  explicit DotWriter(const ShowOptions& options) : options_(options) {}

  std::string Run(const Graph& graph) {
    Line("digraph \"", Escaped(graph.name), "\" {");
    Line("  node [shape=box fontsize=10];");
    Line("  edge [fontsize=9];");
    WriteGraph(graph, "n");
    Line("}");
    return std::move(text_);
  }

 private:
  template <typename... Pieces>
  void Line(const Pieces&... pieces) {
    absl::StrAppend(&text_, pieces..., "\n");
  }

  static std::string Id(const std::string& prefix, int node) { return absl::StrCat(prefix, node); }

  void Edge(const std::string& from, const std::string& to, absl::string_view label,
            absl::string_view more = "") {
    Line("  ", from, " -> ", to, " [label=\"", label, "\"", more, "];");
  }

  // Node i of the graph is `prefix`i; the nodes of bodies inside it begin with `prefix`i_.
  //
  // All nodes first: Graphviz puts a node into the cluster in which its name appears first, and an
  // edge would name nodes too.
  void WriteGraph(const Graph& graph, const std::string& prefix) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      WriteNode(graph, static_cast<int>(i), prefix);
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        if (node.inputs[input].present()) {
          WriteInput(graph, static_cast<int>(i), input, prefix);
        }
      }
    }
  }

  void WriteNode(const Graph& graph, int index, const std::string& prefix) {
    const Node& node = graph.node(index);
    const std::string id = Id(prefix, index);
    std::string label = absl::StrCat(Escaped(node.op), "\\n", Escaped(node.name));
    for (const ValueInfo& info : node.outputs) {
      absl::StrAppend(&label, "\\n", Name(info.dtype), info.shape.ToString());
    }
    if (options_.note) {
      const std::string note = options_.note(graph, index);
      absl::StrAppend(&label, note.empty() ? "" : "\\n", Escaped(note));
    }
    const bool is_port = node.op == "Parameter" || node.op == "Result";
    const absl::string_view style = is_port                 ? " style=filled fillcolor=lightblue"
                                    : node.op == "Constant" ? " style=filled fillcolor=gray90"
                                                            : "";
    int bodies = 0;
    VisitBodies(node, [&](const Graph& body, absl::string_view what) {
      Line("  subgraph \"cluster_", id, "_", bodies, "\" {");
      Line("  label=\"", Escaped(node.name), ": ", what, "\";");
      WriteGraph(body, BodyPrefix(id, bodies++));
      Line("  }");
    });
    Line("  ", id, " [label=\"", label, "\"", style, bodies > 0 ? " shape=octagon" : "", "];");
    if (node.loop != nullptr) {
      WriteLoopEdges(*node.loop, id);
    }
    if (node.branches != nullptr) {
      WriteBranchEdges(node.branches->then_branch, id, 0);
      WriteBranchEdges(node.branches->else_branch, id, 1);
    }
  }

  static std::string BodyPrefix(const std::string& id, int body) {
    return absl::StrCat(id, "_", body, "_");
  }

  // The node stands for the loop's inputs and outputs, its cluster for an iteration.
  //
  // Edges that go back carry constraint=false: they do not count when Graphviz arranges nodes in
  // ranks, so that the body reads from top to bottom.
  void WriteLoopEdges(const Loop& loop, const std::string& id) {
    const std::string inside = BodyPrefix(id, 0);
    const auto parameter = [&](int i) {
      return Id(inside, loop.body.parameters[static_cast<size_t>(i)]);
    };
    const auto result = [&](int i) {
      return Id(inside, loop.body.results[static_cast<size_t>(i)]);
    };
    for (const LoopInput& rule : loop.inputs) {
      const std::string to = parameter(rule.body_parameter);
      switch (rule.kind) {
        case LoopInput::Kind::kSliced:
          Edge(id, to, absl::StrCat("input ", rule.input, ", slices of axis ", rule.axis));
          break;
        case LoopInput::Kind::kCarried:
          Edge(id, to, absl::StrCat("input ", rule.input, ", first"));
          Edge(result(rule.back_edge), to, "next", " style=dashed constraint=false");
          break;
        case LoopInput::Kind::kInvariant:
          Edge(id, to, absl::StrCat("input ", rule.input));
          break;
        case LoopInput::Kind::kIteration:
          Edge(id, to, "iteration");
          break;
      }
    }
    for (const LoopOutput& rule : loop.outputs) {
      const bool last = rule.kind == LoopOutput::Kind::kLastValue;
      Edge(
          result(rule.body_result), id,
          absl::StrCat("output ", rule.output,
                       last ? std::string(", last") : absl::StrCat(", joined on axis ", rule.axis)),
          " constraint=false");
    }
    if (loop.condition_result >= 0) {
      Edge(result(loop.condition_result), id, "goes on while true", " constraint=false");
    }
  }

  // As a loop's, without a second time round: an edge into the body for each input and one back for
  // each output.
  void WriteBranchEdges(const Branch& branch, const std::string& id, int body) {
    const std::string inside = BodyPrefix(id, body);
    for (size_t i = 0; i < branch.inputs.size(); ++i) {
      Edge(id, Id(inside, branch.body.parameters[i]), absl::StrCat("input ", branch.inputs[i]));
    }
    for (size_t i = 0; i < branch.results.size(); ++i) {
      Edge(Id(inside, branch.body.results[static_cast<size_t>(branch.results[i])]), id,
           absl::StrCat("output ", i), " constraint=false");
    }
  }

  // An edge has a label where a node has more than one output or input.
  void WriteInput(const Graph& graph, int index, size_t input, const std::string& prefix) {
    const Node& node = graph.node(index);
    const ValueId from = node.inputs[input];
    std::string label;
    if (graph.node(from.node).outputs.size() > 1) {
      label = absl::StrCat("output ", from.output);
    }
    if (node.inputs.size() > 1) {
      absl::StrAppend(&label, label.empty() ? "" : " to ", "input ", input);
    }
    Edge(Id(prefix, from.node), Id(prefix, index), label);
  }

  const ShowOptions& options_;
  std::string text_;
};

}  // namespace

std::string ShowDot(const Graph& graph, const ShowOptions& options) {
  return DotWriter(options).Run(graph);
}

}  // namespace beamwright::ops
