#include "ops/decoder/inferred_graph.h"

#include <utility>

#include "ops/compile/program.h"
#include "ops/graph/rewrite.h"

namespace beamwright::ops {

ValueId InferredGraph::Append(Node node, std::vector<Tensor> constants,
                              std::vector<std::shared_ptr<const GraphInfo>> bodies) {
  graph.nodes.push_back(std::move(node));
  info.constants.push_back(std::move(constants));
  info.bodies.push_back(std::move(bodies));
  return {static_cast<int>(graph.nodes.size()) - 1, 0};
}

ValueId InferredGraph::AppendConstant(const std::string& name, Tensor value) {
  Node node;
  node.op = "Constant";
  node.name = name;
  node.outputs = {{value.dtype(), PartialShape(value.shape()), {}}};
  node.constant = value;
  return Append(std::move(node), {std::move(value)});
}

ValueId InferredGraph::AppendOperator(const std::string& op, const std::string& name,
                                      std::vector<ValueId> inputs, DType dtype,
                                      PartialShape shape) {
  Node node;
  node.op = op;
  node.name = name;
  node.inputs = std::move(inputs);
  node.outputs = {{dtype, std::move(shape), {}}};
  return Append(std::move(node), {Tensor()});
}

void InferredGraph::DropUnread() {
  std::vector<ValueId> wanted;
  for (const int node : graph.results) {
    wanted.push_back({node, 0});
  }
  std::vector<bool> keep = AncestorsOf(graph, wanted);
  for (const int node : graph.parameters) {
    keep[static_cast<size_t>(node)] = true;
  }
  GraphInfo kept;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) {
      kept.constants.push_back(std::move(info.constants[i]));
      kept.bodies.push_back(std::move(info.bodies[i]));
    }
  }
  info = std::move(kept);
  graph = KeepNodes(graph, keep);
}

}  // namespace beamwright::ops
