// The operator library: what each operator of the internal vocabulary (docs/operators.md) infers
// and computes, and how its output rows follow from its input rows. "Parameter", "Constant" and
// "Result" belong to the graph, "Loop" to ops/loop, which makes the full OperatorSet out of these
// and its own.
#ifndef BEAMWRIGHT_OPS_KERNELS_KERNELS_H_
#define BEAMWRIGHT_OPS_KERNELS_KERNELS_H_

#include <vector>

#include "ops/base/precision.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Every operator that has a kernel here; names are unique. weights: the form in which kernels keep
// the constant weights that they pack.
std::vector<Operator> KernelOperators(Precision weights = Precision::kF32);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_KERNELS_H_
