// A graph as Graphviz text: `beamwright-graph show --dot FILE | dot -Tsvg`.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/base/printable.h"
#include "tools/graph/show.h"

namespace beamwright::ops {
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
