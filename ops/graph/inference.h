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
  // For node i the same of the graphs inside it: one of a Loop, two of an If (then, else; null: a
  // branch that is never taken); none of other nodes.
  std::vector<std::vector<std::shared_ptr<const GraphInfo>>> bodies;

  // Whether every output of the node is known at load.
  bool IsKnown(int node) const;
  // The inputs of a node as operators see them. Valid while the graph and this live.
  std::vector<InputInfo> InputsOf(const Graph& graph, const Node& node) const;
};

// Checks structure (inputs refer to earlier nodes and existing outputs, known operators, known
// attributes), then infers every output in order and folds small computations on constants (shape
// arithmetic). A declared type or shape that contradicts the inferred one is an error. Every error
// names the layer, and the port where it can. Bodies of loops and branches are inferred with the
// types and shapes that the node's inputs give them; where a state may change its shape, the body
// is inferred again with what differs unknown, until it holds for every iteration.
inline constexpr int kMaxLoopDepth = 16;      // loops and branches inside each other
inline constexpr int64_t kMaxBodies = 1'000;  // of loops and branches in a graph, all together
absl::StatusOr<GraphInfo> InferGraph(Graph& graph, const OperatorSet& operators);

// What the outputs of one node are for inputs of these types and shapes: what a loop that runs no
// iteration gives.
absl::StatusOr<std::vector<ValueInfo>> InferNodeOutputs(const Node& node,
                                                        absl::Span<const InputInfo> inputs,
                                                        const OperatorSet& operators);

// InferGraph node by node, for an importer that must know types and ranks while it builds a graph.
class StepwiseInference {
 public:
  // Both must outlive this; `graph` may only be appended to.
  StepwiseInference(Graph& graph, const OperatorSet& operators);
  // For a body inside a graph that `outside` infers, which must outlive this.
  StepwiseInference(Graph& graph, StepwiseInference& outside);
  ~StepwiseInference();

  // Infers the nodes that were appended since the last call. Errors do not name the node, which
  // is the importer's business. After an error the graph is good for nothing.
  absl::Status InferAppended();
  // Adds what a file declares of a value; InvalidArgument if it contradicts what is known.
  absl::Status Declare(ValueId value, const ValueInfo& declared);
  // Values known at load, as far as nodes have been inferred.
  const GraphInfo& info() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// All that is wrong with a graph. InferGraph reports it in one error, of up
// to 20 nodes: behind a fault it goes on with what the file declares, and a node that reads a value
// of which nothing is known is not judged.

// What is wrong apart from operators that are not known: those, too, are passed over with what
// hangs on them. OK if that is nothing.
absl::Status FaultsBesideUnknown(Graph graph, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_INFERENCE_H_
