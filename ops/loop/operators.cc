// The set of all operators for each precision of weights (Operators): those of kernels, and "If"
// and "Loop", which run graphs and are thus above the kernels.
//
// IfKernel compiles both branches, except one that inference found never to be taken. A run checks
// the condition, puts the inputs into the branch's slots, runs its program, and takes its results.
#include "ops/loop/operators.h"

#include "ops/base/status.h"
#include "ops/compile/program.h"
#include "ops/compile/row_follower.h"
#include "ops/graph/operator.h"
#include "ops/kernels/kernels.h"
#include "ops/loop/sequence_driver.h"

namespace beamwright::ops {
namespace {

// The "If" operator: both branches are compiled once, and a run runs the one that its condition
// chooses. The contract is that of If in ops/graph/graph.h.

class IfKernel : public Kernel {
 public:
  explicit IfKernel(std::shared_ptr<const If> branches) : branches_(std::move(branches)) {}

  absl::Status Compile(const KernelRequest& request) {
    BW_CHECK(request.bodies.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      if (request.bodies[i] == nullptr) {
        continue;
      }
      const Graph& body = BranchAt(i).body;
      const std::vector<bool> all(body.nodes.size(), true);
      absl::StatusOr<Program> program =
          Program::Compile(body, *request.bodies[i], request.operators, all);
      if (!program.ok()) {
        return Annotate(program.status(), NameAt(i));
      }
      programs_[i] = std::make_unique<Program>(*std::move(program));
      Program* const compiled = programs_[i].get();
      Program::DropUnread(body, {&compiled, 1});
    }
    return absl::OkStatus();
  }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    const Tensor& condition = *inputs[static_cast<size_t>(branches_->condition_input)];
    if (condition.dtype() != DType::kBool || condition.num_elements() != 1) {
      return Invalid("the condition is ", Name(condition.dtype()), ToString(condition.shape()),
                     "; it must be one boolean");
    }
    const size_t taken = *condition.data<bool>() ? 0 : 1;
    const absl::Status status = RunBranch(context, taken, inputs, outputs);
    return Annotate(status, NameAt(taken));
  }

 private:
  const Branch& BranchAt(size_t i) const {
    return i == 0 ? branches_->then_branch : branches_->else_branch;
  }
  static absl::string_view NameAt(size_t i) { return i == 0 ? "then branch" : "else branch"; }

  absl::Status RunBranch(const ExecutionContext& context, size_t taken,
                         absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) const {
    BW_CHECK(programs_[taken] != nullptr);
    const Program& program = *programs_[taken];
    const Branch& branch = BranchAt(taken);
    Slots slots = program.MakeSlots();
    for (size_t i = 0; i < branch.inputs.size(); ++i) {
      slots[static_cast<size_t>(program.slot({branch.body.parameters[i], 0}))] =
          *inputs[static_cast<size_t>(branch.inputs[i])];
    }
    BW_RETURN_IF_ERROR(program.Run(context, slots));
    for (size_t i = 0; i < branch.results.size(); ++i) {
      const int result = branch.body.results[static_cast<size_t>(branch.results[i])];
      outputs[i] = slots[static_cast<size_t>(program.slot(branch.body.node(result).inputs[0]))];
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const If> branches_;
  std::unique_ptr<Program> programs_[2];  // then, else; null: never taken
};

// Kernel of op "If". A branch that inference found never to be taken is not compiled.
absl::StatusOr<std::unique_ptr<Kernel>> MakeIfKernel(const KernelRequest& request) {
  auto kernel = std::make_unique<IfKernel>(request.node.branches);
  BW_RETURN_IF_ERROR(kernel->Compile(request));
  return kernel;
}

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
