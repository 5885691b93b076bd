// Type and shape inference over a whole graph, with folding of what is known at load; and the
// checks that a graph is sound.
#ifndef BEAMWRIGHT_OPS_GRAPH_INFERENCE_H_
#define BEAMWRIGHT_OPS_GRAPH_INFERENCE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// What inference found beyond Node::outputs: values known at load. Indexed [node][output]; a tensor
// without a value where it is not known.
struct GraphInfo {
  std::vector<std::vector<Tensor>> constants;
  // For node i of op "Loop" the same of its body; null elsewhere.
  std::vector<std::shared_ptr<const GraphInfo>> bodies;

  // Whether every output of the node is known at load.
  bool IsKnown(int node) const;
  // The inputs of a node as operators see them. Valid while the graph and this live.
  std::vector<InputInfo> InputsOf(const Graph& graph, const Node& node) const;
};

// Checks structure (inputs refer to earlier nodes and existing outputs, known operators, known
// attributes), then infers every output in order and folds small computations on constants (shape
// arithmetic). A declared type or shape that contradicts the inferred one is an error. Every error
// names the layer, and the port where it can. Loops: bodies are inferred with the types and shapes
// that the loop's inputs give them.
inline constexpr int kMaxLoopDepth = 16;
absl::StatusOr<GraphInfo> InferGraph(Graph& graph, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_INFERENCE_H_
