#include "ops/loop/operators.h"

#include "ops/compile/own_lengths.h"
#include "ops/kernels/kernels.h"
#include "ops/loop/branches.h"
#include "ops/loop/sequence_driver.h"

namespace beamwright::ops {

namespace {

const OperatorSet* MakeOperators(Precision weights) {
  std::vector<Operator> operators = KernelOperators(weights);
  // Inference of these is the graph's own business: it concerns several graphs.
  Operator branches;
  branches.name = "If";
  branches.make = MakeIfKernel;
  operators.push_back(branches);
  Operator loop;
  loop.name = "Loop";
  loop.make = MakeLoopKernel;
  loop.attributes = {kItemsLeave};
  operators.push_back(loop);
  return new OperatorSet(std::move(operators));
}

}  // namespace

const OperatorSet& Operators(Precision weights) {
  static const OperatorSet* const sets[] = {
      MakeOperators(Precision::kF32), MakeOperators(Precision::kBf16),
      MakeOperators(Precision::kBf16Dot), MakeOperators(Precision::kBf16Amx),
      MakeOperators(Precision::kInt8)};
  return *sets[static_cast<size_t>(weights)];
}

}  // namespace beamwright::ops
