// The complete set of operators: the elementary kernels and the loop.
#ifndef BEAMWRIGHT_OPS_LOOP_OPERATORS_H_
#define BEAMWRIGHT_OPS_LOOP_OPERATORS_H_

#include "ops/graph/operator.h"

namespace beamwright::ops {

const OperatorSet& Operators();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_OPERATORS_H_
