#include "tools/graph/picture/port_label.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace beamwright::ops {
namespace {

int IndexOf(const std::vector<int>& ports, int node) {
  return static_cast<int>(std::find(ports.begin(), ports.end(), node) - ports.begin());
}

std::string ParameterLabel(const LoopInput& rule, const std::string& name) {
  switch (rule.kind) {
    case LoopInput::Kind::kSliced:
      return absl::StrCat(name, "[t]");
    case LoopInput::Kind::kCarried:
      return absl::StrCat("⟲ ", name);
    case LoopInput::Kind::kIteration:
      return "t";
    case LoopInput::Kind::kInvariant:
      break;
  }
  return name;
}

std::string ResultLabel(const Graph& graph, const Loop& loop, int result, const std::string& name) {
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kCarried && rule.back_edge == result) {
      return absl::StrCat(
          "⟲ next ", PortName(graph, graph.parameters[static_cast<size_t>(rule.body_parameter)]));
    }
  }
  return loop.condition_result == result ? "goes on while" : name;
}

}  // namespace

std::string PortLabel(const Graph& graph, const Loop* loop, int node) {
  const std::string name = PortName(graph, node);
  if (loop == nullptr) {
    return name;
  }
  if (graph.node(node).op == "Result") {
    return ResultLabel(graph, *loop, IndexOf(graph.results, node), name);
  }
  const int parameter = IndexOf(graph.parameters, node);
  for (const LoopInput& rule : loop->inputs) {
    if (rule.body_parameter == parameter) {
      return ParameterLabel(rule, name);
    }
  }
  return name;
}

}  // namespace beamwright::ops
