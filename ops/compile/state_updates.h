// Layers whose memory is a matrix for each row and head, found in what files spell out:
//
//   next = state * decay + key value^T, and what is read from it: MatMul, ReduceSum of a product or
//   Einsum with a query
//
// with a delta rule or not. A file's operators pass over the state some five times a step;
// StateUpdate (ops/kernels/state_update.h) does so once. Sums are taken in another order, so that
// results differ in their last bits from those of the file's operators.
#ifndef BEAMWRIGHT_OPS_COMPILE_STATE_UPDATES_H_
#define BEAMWRIGHT_OPS_COMPILE_STATE_UPDATES_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// A state of a step graph: a Parameter, and the value that becomes the next one.
struct CarriedValue {
  ValueId state;
  ValueId next;
};

// `graph` and `info` as InferGraph leaves them, before and after.
absl::Status JoinStateUpdates(absl::Span<const CarriedValue> states, Graph& graph, GraphInfo& info,
                              const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_STATE_UPDATES_H_
