// Loops that count. A scripted loop over a sequence ("for t in range(x.size(1)): x[:, t]") arrives
// as a Loop with a trip count, whose body picks its step out of the whole sequence by the
// iteration's number. A `while`, as Keras' and TensorFlow's layers are written, arrives as a Loop
// that goes on while that number (which was a state, SimplifyStates) is below the
// number of steps. Both are loops which slice the sequence, written in another way.
#ifndef BEAMWRIGHT_OPS_DECODER_LOOP_SLICES_H_
#define BEAMWRIGHT_OPS_DECODER_LOOP_SLICES_H_

#include <optional>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// What the integers and truth values around a loop say of the number of steps of the target.

// Whether a node converts a number of steps to a type that holds every such number exactly.
bool KeepsCounts(const Node& node);

class StepCounts {
 public:
  // runs_along: whether the axis of a value has one element for each step. All must outlive this.
  StepCounts(const Graph& graph, const GraphInfo& info,
             absl::AnyInvocable<bool(ValueId, int64_t axis) const> runs_along)
      : graph_(graph), info_(info), runs_along_(std::move(runs_along)) {}

  // A value known at load, or nullptr.
  const Tensor* Known(ValueId id) const;
  // Whether an integer of one element is the extent of the time axis, picked from ShapeOf(x).
  bool AreCountedBy(ValueId id) const;
  // Whether a truth value holds whenever there is a step: it is true, or says that 0 is less than
  // the number of steps.
  bool LetBegin(ValueId id) const;

 private:
  std::optional<int64_t> KnownInt(ValueId id) const;
  std::optional<int64_t> PickedPlace(const Node& pick) const;
  const Node& Untyped(ValueId id) const;

  const Graph& graph_;
  const GraphInfo& info_;
  absl::AnyInvocable<bool(ValueId, int64_t axis) const> runs_along_;
};

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
