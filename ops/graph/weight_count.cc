#include "ops/graph/weight_count.h"

#include <vector>

namespace beamwright::ops {

int64_t CountWeights(const Graph& graph) {
  std::vector<bool> is_read_whole(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int from = node.inputs[i].node;
      if (from >= 0 && !(node.op == "Gather" && i == 0)) {
        is_read_whole[static_cast<size_t>(from)] = true;
      }
    }
  }
  int64_t count = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_read_whole[i] && node.constant.has_value() && node.constant.rank() >= 2) {
      count += node.constant.num_elements();
    }
    if (node.loop != nullptr) {
      count += CountWeights(node.loop->body);
    }
    if (node.branches != nullptr) {
      count += CountWeights(node.branches->then_branch.body) +
               CountWeights(node.branches->else_branch.body);
    }
  }
  return count;
}

}  // namespace beamwright::ops
