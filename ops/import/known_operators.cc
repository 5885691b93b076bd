#include "ops/import/known_operators.h"

#include "ops/kernels/kernels.h"

namespace beamwright::ops {

const OperatorSet& KnownOperatorSet() {
  static const auto* const set = new OperatorSet(KernelOperators());
  return *set;
}

}  // namespace beamwright::ops
