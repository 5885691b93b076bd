// Loops that count. A scripted loop over a sequence ("for t in range(x.size(1)): x[:, t]") arrives
// as a Loop with a trip count, whose body picks its step out of the whole sequence by the
// iteration's number. That is a loop which slices the sequence, written in another way.
#ifndef BEAMWRIGHT_OPS_DECODER_LOOP_SLICES_H_
#define BEAMWRIGHT_OPS_DECODER_LOOP_SLICES_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// What is known of the values that a loop reads.
struct LoopSurroundings {
  // Whether an integer of one element is the number of steps.
  absl::FunctionRef<bool(ValueId)> counts_steps;
  // Whether the axis of a value has one element for each step.
  absl::FunctionRef<bool(ValueId, int64_t axis)> runs_along;
  // A value known at load, or nullptr.
  absl::FunctionRef<const Tensor*(ValueId)> known;
};

// `body`: what inference found of the loop's body. A copy of a Loop node that slices what its body
// picks, and so needs no trip count, condition or iteration number. Nothing if the node is no such
// loop: its trip count is not the number of steps, a condition may end it earlier, or its body uses
// the iteration's number for anything else.
std::optional<Node> SliceWhatIsPicked(const Node& node, const GraphInfo& body,
                                      const LoopSurroundings& surroundings);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_LOOP_SLICES_H_
