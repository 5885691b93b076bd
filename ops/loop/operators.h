// The complete set of operators: the elementary kernels and the loop.
#ifndef BEAMWRIGHT_OPS_LOOP_OPERATORS_H_
#define BEAMWRIGHT_OPS_LOOP_OPERATORS_H_

#include "ops/base/precision.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// The same operators for each precision; they differ in how kernels keep constant weights.
const OperatorSet& Operators(Precision weights = Precision::kF32);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_OPERATORS_H_
