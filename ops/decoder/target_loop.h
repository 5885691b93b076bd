// A decoder as training exported it: recurrent layers, each a loop over the target sequence, and
// around and between them layers that work time step by time step (an embedding before, attention
// and projection after). JoinTargetLoop makes one loop of them, whose body is the whole step: what
// depends on the target moves into it, what does not stays outside and is computed once per
// request.
//
// That a layer works time step by time step is read off Operator::rows, with time steps in the
// place of rows: position t of its output depends on position t of its inputs alone.
//
// Loops that count the steps of the target are rewritten to slice it first (SliceWhatIsPicked).
#ifndef BEAMWRIGHT_OPS_DECODER_TARGET_LOOP_H_
#define BEAMWRIGHT_OPS_DECODER_TARGET_LOOP_H_

#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Loops that count. A scripted loop over a sequence ("for t in range(x.size(1)): x[:, t]") arrives
// as a Loop with a trip count, whose body picks its step out of the whole sequence by the
// iteration's number. A `while`, as Keras' and TensorFlow's layers are written, arrives as a Loop
// that goes on while that number (which was a state, SimplifyStates) is below the
// number of steps. Both are loops which slice the sequence, written in another way.

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

// `graph` and `info` as InferGraph leaves them. `token_parameter`: the node that takes the target
// sequence, of rank 2 (or 1), with the time on axis `time_axis`. `results`: Result nodes to keep,
// the logits first. The new graph has the same Parameters and those Results, and computes the same;
// its one Loop slices the token Parameter itself, and its first outputs are the results, joined
// over time. Unimplemented names the layer that can't be moved into the step, and why.
absl::StatusOr<Graph> JoinTargetLoop(const Graph& graph, const GraphInfo& info,
                                     const OperatorSet& operators, int token_parameter,
                                     int time_axis, const std::vector<int>& results);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_TARGET_LOOP_H_
