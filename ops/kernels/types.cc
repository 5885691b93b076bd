// Operators of types of 16 bits that compute in f32: MakeWidened wraps a kernel. Inputs that are
// known at load are widened then, others in each run; results are rounded to the narrow type once,
// at the end. Integers and truth values pass through.
#include "ops/kernels/types.h"

#include <algorithm>

namespace beamwright::ops {
namespace {

class WidenedKernel final : public Kernel {
 public:
  // constants: inputs known at load, widened; without a value if missing.
  WidenedKernel(std::unique_ptr<Kernel> wide, DType narrow, std::vector<Tensor> constants)
      : wide_(std::move(wide)), narrow_(narrow), constants_(std::move(constants)) {
    for (size_t i = 0; i < constants_.size(); ++i) {
      if (!wide_->NeedsInput(i)) {
        constants_[i] = Tensor();
      }
    }
  }

  bool NeedsInput(size_t index) const override {
    return wide_->NeedsInput(index) && !constants_[index].has_value();
  }

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    static const Tensor absent;
    std::vector<Tensor> widened(inputs.size());
    absl::InlinedVector<const Tensor*, 8> wide_inputs(inputs.begin(), inputs.end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!wide_->NeedsInput(i)) {
        wide_inputs[i] = &absent;
      } else if (constants_[i].has_value()) {
        wide_inputs[i] = &constants_[i];
      } else if (inputs[i] != nullptr && IsHalf(inputs[i]->dtype())) {
        BW_ASSIGN_OR_RETURN(widened[i], Convert(*inputs[i], DType::kF32));
        wide_inputs[i] = &widened[i];
      }
    }
    std::vector<Tensor> wide_outputs(outputs.size());
    BW_RETURN_IF_ERROR(wide_->Run(context, wide_inputs, absl::MakeSpan(wide_outputs)));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (wide_outputs[i].dtype() == DType::kF32) {
        BW_ASSIGN_OR_RETURN(outputs[i], Convert(wide_outputs[i], narrow_));
      } else {
        outputs[i] = std::move(wide_outputs[i]);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Kernel> wide_;
  const DType narrow_;
  std::vector<Tensor> constants_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(const KernelRequest& request,
                                                    MakeFunction make) {
  const auto narrow = std::find_if(request.inputs.begin(), request.inputs.end(),
                                   [](const InputInfo& input) { return IsHalf(input.dtype); });
  if (narrow == request.inputs.end()) {
    return make(request);
  }
  std::vector<InputInfo> inputs(request.inputs.begin(), request.inputs.end());
  std::vector<Tensor> constants(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!IsHalf(inputs[i].dtype)) {
      continue;
    }
    inputs[i].dtype = DType::kF32;
    if (inputs[i].value != nullptr) {
      BW_ASSIGN_OR_RETURN(constants[i], Convert(*inputs[i].value, DType::kF32));
      inputs[i].value = &constants[i];
    }
  }
  BW_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> wide,
                      make({request.node, inputs, request.operators, request.bodies}));
  return std::make_unique<WidenedKernel>(std::move(wide), narrow->dtype, std::move(constants));
}

}  // namespace beamwright::ops
