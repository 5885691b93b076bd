#include "ops/graph/graph.h"

#include <algorithm>

#include "ops/base/status.h"
#include "ops/graph/file_operator.h"

namespace beamwright::ops {

std::string Describe(const Node& node) {
  return absl::StrCat(node.attributes.String(kFileOperator, node.op).value_or(node.op), " '",
                      node.name, "'");
}

std::string PortName(const Graph& graph, int node_index) {
  const Node& node = graph.node(node_index);
  if (node.op == "Result" && node.attributes.Has("port_name")) {
    return node.attributes.String("port_name", node.name).value_or(node.name);
  }
  if (node.op == "Result" && !node.inputs.empty() && node.inputs[0].present()) {
    const std::vector<std::string>& names = graph.info(node.inputs[0]).names;
    if (std::find(names.begin(), names.end(), node.name) != names.end()) {
      return node.name;
    }
    if (!names.empty()) {
      return names.front();
    }
  }
  if (!node.outputs.empty() && !node.outputs[0].names.empty()) {
    return node.outputs[0].names.front();
  }
  return node.name;
}

}  // namespace beamwright::ops
