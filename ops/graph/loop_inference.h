// Inference of a loop: what its body's Parameters hold, and what its outputs are. Private to
// graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_LOOP_INFERENCE_H_
#define BEAMWRIGHT_OPS_GRAPH_LOOP_INFERENCE_H_

#include <vector>

#include "absl/status/status.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Checks the loop's maps against its body and the node: indices, every body Parameter fed once,
// back edges, conditions. Errors name the port.
absl::Status CheckLoopMaps(const Node& node);

// Sets type and shape of each body Parameter from the loop's inputs; a declaration in the body that
// contradicts them is an error. `constants`, one per Parameter, gets the values known at load
// (invariant inputs that are constants).
absl::Status PrepareBody(const Node& node, absl::Span<const InputInfo> inputs, Graph& body,
                         std::vector<Tensor>& constants);

// After the body was inferred: checks back edges (same type, compatible shape) and sets the
// outputs.
absl::Status InferLoopOutputs(const Node& node, absl::Span<const InputInfo> inputs,
                              std::vector<ValueInfo>& outputs);

// The shape both declarations allow; InvalidArgument naming both if there is none. `what` names the
// place.
absl::Status MergeInfo(absl::string_view what, const ValueInfo& declared, ValueInfo& inferred);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_LOOP_INFERENCE_H_
