#include "ops/loop/operators.h"

#include "ops/kernels/kernels.h"
#include "ops/loop/branches.h"
#include "ops/loop/sequence_driver.h"

namespace beamwright::ops {

const OperatorSet& Operators() {
  static const OperatorSet* const set = [] {
    std::vector<Operator> operators = KernelOperators();
    // Inference of these is the graph's own business: it concerns several graphs.
    Operator branches;
    branches.name = "If";
    branches.make = MakeIfKernel;
    operators.push_back(branches);
    Operator loop;
    loop.name = "Loop";
    loop.make = MakeLoopKernel;
    operators.push_back(loop);
    return new OperatorSet(std::move(operators));
  }();
  return *set;
}

}  // namespace beamwright::ops
