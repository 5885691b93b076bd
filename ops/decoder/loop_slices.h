// Loops that count. A scripted loop over a sequence ("for t in range(x.size(1)): x[:, t]") arrives
// as a Loop with a trip count, whose body picks its step out of the whole sequence by the
// iteration's number. A `while`, as Keras' and TensorFlow's layers are written, arrives as a Loop
// that goes on while that number (which was a state, SimplifyStates) is below the
// number of steps. Both are loops which slice the sequence, written in another way.
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
  // Whether a truth value holds whenever there is a step to make.
  absl::FunctionRef<bool(ValueId)> lets_begin;
  // A value known at load, or nullptr.
  absl::FunctionRef<const Tensor*(ValueId)> known;
};

// `body`: what inference found of the loop's body. A copy of a Loop node that slices what its body
// picks, and so needs no trip count and no condition. The iteration's number stays where the body
// uses it for anything else, such as a table of positions. Nothing if the node is not such a loop:
// neither its trip count nor its condition makes it run once for each step, or it picks nothing.
std::optional<Node> SliceWhatIsPicked(const Node& node, const GraphInfo& body,
                                      const LoopSurroundings& surroundings);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_LOOP_SLICES_H_
