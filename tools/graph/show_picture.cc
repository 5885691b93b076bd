#include "tools/graph/show_picture.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/compile/shape_folding.h"
#include "ops/loop/operators.h"
#include "tools/graph/check.h"
#include "tools/graph/node_cost.h"

namespace beamwright::ops {
namespace {

using MarkMap = std::map<const Graph*, std::vector<NodeMark>>;

// Costs of all nodes, and scopes in the bodies of loops.
void MarkGraph(const Graph& graph, const GraphInfo& info, MarkMap& marks) {
  std::vector<NodeMark>& here = marks[&graph];
  here.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    here[i].cost = ToText(CostOf(graph, info, static_cast<int>(i)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    size_t number = 0;
    VisitBodies(node, [&](const Graph& body, absl::string_view) {
      const GraphInfo* const inner = info.bodies[i][number++].get();
      if (inner == nullptr) {
        return;
      }
      MarkGraph(body, *inner, marks);
      if (node.loop != nullptr) {
        const std::vector<Scope> scopes = FindScopes(*node.loop, *inner);
        for (size_t j = 0; j < scopes.size(); ++j) {
          marks[&body][j].scope = scopes[j];
        }
      }
    });
  }
}

// Marks the nodes that a reason names, in the graph and in all bodies inside it.
void MarkReason(const Graph& graph, const std::string& reason, MarkMap& marks) {
  std::vector<NodeMark>& here = marks[&graph];
  here.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!node.name.empty() && absl::StrContains(reason, Describe(node))) {
      here[i].apart = true;
      here[i].note = absl::StrCat("Run one at a time: ", reason);
    }
    VisitBodies(node,
                [&](const Graph& body, absl::string_view) { MarkReason(body, reason, marks); });
  }
}

std::function<NodeMark(const Graph&, int)> Lookup(MarkMap marks) {
  return [marks = std::move(marks)](const Graph& graph, int node) {
    const auto it = marks.find(&graph);
    return it == marks.end() || it->second.empty() ? NodeMark()
                                                   : it->second[static_cast<size_t>(node)];
  };
}

// What runs apart of a step, and what is computed before.
void MarkStep(const LoopBody& body, MarkMap& marks) {
  const Graph& graph = body.loop().body;
  std::vector<NodeMark>& here = marks[&graph];
  here.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    here[i].scope = body.scopes()[i];
    if (here[i].scope == Scope::kRequest && graph.nodes[i].op != "Parameter") {
      here[i].note = "Computed once per request, before its first step.";
    }
  }
  const RowPlan& plan = body.plan();
  const std::vector<Program::Instruction>& instructions = body.step_program().instructions();
  if (!plan.separable) {
    MarkReason(graph, plan.reason, marks);
    return;
  }
  for (size_t i = 0; i < plan.per_request.size(); ++i) {
    NodeMark& mark = here[static_cast<size_t>(instructions[i].node)];
    mark.apart = plan.per_request[i];
    mark.note = plan.per_request[i]
                    ? "Runs request by request, over each one's rows, as it touches extents of the "
                      "request's own, such as the length of its source."
                    : "Runs once a step, over the rows of all requests together.";
  }
}

PictureView StepView(const SteppedDecoder& decoder) {
  PictureView view;
  view.title = "A search's step";
  const LoopBody& body = *decoder.body;
  view.remarks = {absl::StrCat(decoder.step_name, "."),
                  body.plan().separable
                      ? std::string("The rows of all requests are stepped together.")
                      : absl::StrCat("Rows are stepped one at a time: ", body.plan().reason, ".")};
  MarkMap marks;
  MarkStep(body, marks);
  std::vector<ValueId> wanted = decoder.state_values;
  wanted.insert(wanted.end(), decoder.invariant_values.begin(), decoder.invariant_values.end());
  std::vector<bool> before = AncestorsOf(decoder.decoder, wanted);
  bool computes = false;
  marks[&decoder.decoder].resize(before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const std::string& op = decoder.decoder.nodes[i].op;
    computes = computes || (before[i] && op != "Parameter" && op != "Constant");
    marks[&decoder.decoder][i].scope = Scope::kRequest;
  }
  if (computes) {
    view.parts.push_back(
        {"Before the first step, once per request", &decoder.decoder, nullptr, std::move(before)});
  }
  view.parts.push_back({"A step", &body.loop().body, &body.loop(), {}});
  view.mark = Lookup(std::move(marks));
  return view;
}

}  // namespace

DrawnFile DrawFile(Graph file, std::vector<std::string> remarks) {
  DrawnFile drawn;
  Graph inferred = file;
  absl::StatusOr<GraphInfo> info = InferGraph(inferred, Operators());
  MarkMap marks;
  if (info.ok()) {
    Graph folded = inferred;
    GraphInfo folded_info = *info;
    const absl::Status status = FoldShapes(folded, folded_info, Operators());
    absl::StatusOr<InspectedStep> step =
        status.ok() ? InspectStep(file, folded) : absl::StatusOr<InspectedStep>(status);
    if (step.ok()) {
      drawn.step = *std::move(step);
    } else {
      drawn.step.no_step = std::string(step.status().message());
    }
    drawn.graph = std::make_shared<const Graph>(std::move(inferred));
    drawn.info = std::make_shared<const GraphInfo>(*std::move(info));
    MarkGraph(*drawn.graph, *drawn.info, marks);
    const GraphFindings findings = CheckGraph(std::move(file));
    if (findings.encoder.has_value()) {
      remarks.push_back(
          findings.encoder->separable
              ? std::string("As an encoder: sources of several requests are encoded "
                            "together.")
              : absl::StrCat("As an encoder: sources are encoded one at a time, because ",
                             findings.encoder->reason, "."));
      if (!findings.encoder->separable) {
        MarkReason(*drawn.graph, findings.encoder->reason, marks);
      }
    }
  } else {
    drawn.graph = std::make_shared<const Graph>(std::move(file));
    remarks.push_back(absl::StrCat("types and shapes are those that the file declares: ",
                                   info.status().message()));
  }
  if (drawn.step.decoder != nullptr) {
    drawn.views.push_back(StepView(*drawn.step.decoder));
  } else if (!drawn.step.no_step.empty()) {
    remarks.push_back(absl::StrCat("No search steps it: ", drawn.step.no_step));
  }
  PictureView& view = drawn.views.emplace_back();
  view.title = "The file";
  view.remarks = std::move(remarks);
  view.parts.push_back({"", drawn.graph.get(), nullptr, {}});
  view.mark = Lookup(std::move(marks));
  return drawn;
}

}  // namespace beamwright::ops
