// What the integers and truth values around a loop say of the number of steps of the target.
#ifndef BEAMWRIGHT_OPS_DECODER_STEP_COUNTS_H_
#define BEAMWRIGHT_OPS_DECODER_STEP_COUNTS_H_

#include <optional>

#include "absl/functional/any_invocable.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_STEP_COUNTS_H_
