// KeepNodes copies the nodes that stay and renumbers their inputs; a node that stays must not read
// one that goes. DropLargeConstants frees the weights of a graph whose kernels have packed them;
// small ones stay, since shapes are read from them.
#include "ops/graph/rewrite.h"

#include "ops/base/check.h"

namespace beamwright::ops {

Graph KeepNodes(const Graph& graph, const std::vector<bool>& keep, std::vector<int>* moved) {
  Graph kept;
  kept.name = graph.name;
  std::vector<int> indices(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!keep[i]) {
      continue;
    }
    Node node = graph.nodes[i];
    for (ValueId& input : node.inputs) {
      if (input.present()) {
        input.node = indices[static_cast<size_t>(input.node)];
        BW_CHECK(input.node >= 0);
      }
    }
    indices[i] = static_cast<int>(kept.nodes.size());
    kept.nodes.push_back(std::move(node));
  }
  const auto copy_list = [&](const std::vector<int>& from, std::vector<int>& to) {
    for (const int node : from) {
      if (keep[static_cast<size_t>(node)]) {
        to.push_back(indices[static_cast<size_t>(node)]);
      }
    }
  };
  copy_list(graph.parameters, kept.parameters);
  copy_list(graph.results, kept.results);
  if (moved != nullptr) {
    *moved = std::move(indices);
  }
  return kept;
}

void DropLargeConstants(Graph& graph) {
  constexpr int64_t kSmallConstantBytes = 4096;
  for (Node& node : graph.nodes) {
    if (node.constant.has_value() && node.constant.num_bytes() > kSmallConstantBytes) {
      node.constant = Tensor();
    }
    if (node.loop != nullptr) {
      auto loop = std::make_shared<Loop>(*node.loop);
      DropLargeConstants(loop->body);
      node.loop = std::move(loop);
    }
    if (node.branches != nullptr) {
      auto branches = std::make_shared<If>(*node.branches);
      DropLargeConstants(branches->then_branch.body);
      DropLargeConstants(branches->else_branch.body);
      node.branches = std::move(branches);
    }
  }
}

}  // namespace beamwright::ops
