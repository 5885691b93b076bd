// The sequence driver: the "Loop" operator. It iterates a LoopBody over the parts of its sliced
// inputs, as often as trip count and conditions say (TensorIterator, Loop, Scan and recurrent
// sequences alike), with identity parents, and gathers the outputs. The contract is that of Loop in
// ops/graph/graph.h.
#ifndef BEAMWRIGHT_OPS_LOOP_SEQUENCE_DRIVER_H_
#define BEAMWRIGHT_OPS_LOOP_SEQUENCE_DRIVER_H_

#include "ops/graph/operator.h"

namespace beamwright::ops {

// Kernel of op "Loop". Errors at run time name the port: ranges that do not fit, sliced inputs that
// do not agree on the number of iterations, lengths out of range, states whose shape changes where
// it may not. The deadline is looked at in each iteration (DeadlineExceeded).
absl::StatusOr<std::unique_ptr<Kernel>> MakeLoopKernel(const KernelRequest& request);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_SEQUENCE_DRIVER_H_
