// Inference of an If: what the Parameters of its branches hold, and what its outputs are. Private
// to graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_BRANCH_INFERENCE_H_
#define BEAMWRIGHT_OPS_GRAPH_BRANCH_INFERENCE_H_

#include <vector>

#include "absl/status/status.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Sets type and shape of each Parameter of `body`, a copy of the branch's, from the node's inputs;
// a declaration that contradicts them is an error. `constants`, one per Parameter, gets the values
// known at load.
absl::Status PrepareBranch(const Branch& branch, absl::Span<const InputInfo> inputs, Graph& body,
                           std::vector<Tensor>& constants);

// After the branches were inferred: sets the outputs to what both allow. Null: that branch is never
// taken. Each output must have one type.
absl::Status InferBranchOutputs(const Branch* then_branch, const Branch* else_branch,
                                std::vector<ValueInfo>& outputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_BRANCH_INFERENCE_H_
