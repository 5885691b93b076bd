// What `beamwright-graph run` does: tensors by name into a model, and its results by name.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_RUN_H_
#define BEAMWRIGHT_TOOLS_GRAPH_RUN_H_

#include "absl/status/statusor.h"
#include "ops/graph/operator.h"
#include "ops/loop/model.h"
#include "ops/numpy/npz.h"

namespace beamwright::ops {

// The tensors in the order of the graph's parameters. InvalidArgument names every input that is
// missing, not known or of another type or shape, all at once, and the inputs that there are.
absl::StatusOr<std::vector<Tensor>> OrderInputs(const Graph& graph, const TensorMap& inputs);

// Runs the model once. Names: UniquePortNames.
absl::StatusOr<TensorMap> RunModel(const Model& model, const ExecutionContext& context,
                                   const TensorMap& inputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_RUN_H_
