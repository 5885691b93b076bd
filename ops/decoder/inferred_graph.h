// A graph together with what inference found of it, for passes that put a few nodes of known types
// and shapes in the place of others: inferring the graph anew would lose what is known of a body's
// Parameters, and costs what the first time cost.
#ifndef BEAMWRIGHT_OPS_DECODER_INFERRED_GRAPH_H_
#define BEAMWRIGHT_OPS_DECODER_INFERRED_GRAPH_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/graph/inference.h"

namespace beamwright::ops {

struct InferredGraph {
  Graph graph;
  GraphInfo info;

  // Each returns the new node's first output. The caller has inferred types and shapes.
  ValueId Append(Node node, std::vector<Tensor> constants,
                 std::vector<std::shared_ptr<const GraphInfo>> bodies = {});
  ValueId AppendConstant(const std::string& name, Tensor value);
  ValueId AppendOperator(const std::string& op, const std::string& name,
                         std::vector<ValueId> inputs, DType dtype, PartialShape shape);
  // Drops the nodes that no Result depends on; Parameters stay.
  void DropUnread();
};

// A graph anew, node by node. change(index, node, result) gets each old node with its inputs moved,
// appends what is to stand in its place, and returns the index of the node that others shall read.
template <typename Change>
InferredGraph Rebuild(const Graph& graph, Change change) {
  InferredGraph result;
  result.graph.name = graph.name;
  std::vector<int> moved;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    for (ValueId& input : node.inputs) {
      input.node = input.present() ? moved[static_cast<size_t>(input.node)] : -1;
    }
    moved.push_back(change(static_cast<int>(i), std::move(node), result));
  }
  for (const int parameter : graph.parameters) {
    result.graph.parameters.push_back(moved[static_cast<size_t>(parameter)]);
  }
  for (const int node : graph.results) {
    result.graph.results.push_back(moved[static_cast<size_t>(node)]);
  }
  return result;
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_INFERRED_GRAPH_H_
