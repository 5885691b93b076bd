// Inference of a loop: what its body's Parameters hold, and what its outputs are. Private to
// graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_LOOP_INFERENCE_H_
#define BEAMWRIGHT_OPS_GRAPH_LOOP_INFERENCE_H_

#include <vector>

#include "absl/status/status.h"
#include "ops/graph/inference.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Inference of an If: what the Parameters of its branches hold, and what its outputs are. Private
// to graph/.

// Sets type and shape of each Parameter of `body`, a copy of the branch's, from the node's inputs;
// a declaration that contradicts them is an error. `constants`, one per Parameter, gets the values
// known at load.
absl::Status PrepareBranch(const Branch& branch, absl::Span<const InputInfo> inputs, Graph& body,
                           std::vector<Tensor>& constants);

// After the branches were inferred: sets the outputs to what both allow. Null: that branch is never
// taken. Each output must have one type.
absl::Status InferBranchOutputs(const Branch* then_branch, const Branch* else_branch,
                                std::vector<ValueInfo>& outputs);

// For each rule of a loop the shape of its state in every iteration (kCarried; of one item where
// items run apart).
using StateShapes = std::vector<PartialShape>;

// The shapes that states have in the first iteration.
absl::StatusOr<StateShapes> FirstStateShapes(const Node& node, absl::Span<const InputInfo> inputs);

// Widens `states` so that they hold what the inferred body carries on; false: they do already.
// `body` is the loop's.
bool WidenStates(const Loop& loop, const Graph& body, StateShapes& states);

// Sets type and shape of each Parameter of `body`, a copy of the loop's, from the loop's inputs and
// its states; a declaration in the body that contradicts them is an error. `constants`, one per
// Parameter, gets the values known at load (invariant inputs that are constants).
absl::Status PrepareBody(const Node& node, absl::Span<const InputInfo> inputs,
                         const StateShapes& states, Graph& body, std::vector<Tensor>& constants);

// After the loop's body was inferred, in `loop`, a copy of the node's: counts the axes of slices
// and joined outputs from the front where ranks are known, and gives a joined output whose rule has
// the default part of 1 the extent that its parts have, since parts are concatenated as they are.
absl::Status SettleRules(const Node& node, absl::Span<const InputInfo> inputs, Loop& loop);

// After the loop's body was inferred: checks back edges (same type, compatible shape), trip count,
// conditions and lengths, and sets the outputs.
absl::Status InferLoopOutputs(const Node& node, const GraphInfo& body_info,
                              absl::Span<const InputInfo> inputs, std::vector<ValueInfo>& outputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_LOOP_INFERENCE_H_
