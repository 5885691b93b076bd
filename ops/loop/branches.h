// The "If" operator: both branches are compiled once, and a run runs the one that its condition
// chooses. The contract is that of If in ops/graph/graph.h.
#ifndef BEAMWRIGHT_OPS_LOOP_BRANCHES_H_
#define BEAMWRIGHT_OPS_LOOP_BRANCHES_H_

#include "ops/graph/operator.h"

namespace beamwright::ops {

// Kernel of op "If". A branch that inference found never to be taken is not compiled.
absl::StatusOr<std::unique_ptr<Kernel>> MakeIfKernel(const KernelRequest& request);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_BRANCHES_H_
