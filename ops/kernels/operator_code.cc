// What CodeOf's operators have in common at run time: inputs are described as at load
// (DescribeInputs), so that Shapes infers the outputs' shapes from the run's values; outputs are
// allocated within the limit on a tensor's bytes (PrepareOutputs); and types of 16 bits are widened
// and rounded again around Compute (ComputeInF32).
#include "ops/kernels/operator_code.h"

#include <algorithm>

#include "ops/kernels/types.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

RuntimeInfos DescribeInputs(absl::Span<const Tensor* const> inputs) {
  RuntimeInfos infos;
  infos.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    if (input == nullptr || !input->has_value()) {
      infos.push_back({});
    } else {
      infos.push_back({input->dtype(), PartialShape(input->shape()), input});
    }
  }
  return infos;
}

absl::Status PrepareOutputs(absl::Span<const ValueInfo> results, absl::Span<Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueInfo& result = results[i];
    if (!result.shape.is_static()) {
      return Invalid("the shape of output ", i, " is not known: ", result.shape.ToString());
    }
    BW_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(result.shape.dims()));
    if (elements > MaxTensorBytes() / SizeOf(result.dtype)) {
      return TooLarge(absl::StrCat("output ", i, " of shape ", result.shape.ToString()));
    }
    outputs[i].Resize(result.dtype, result.shape.dims());
  }
  return absl::OkStatus();
}

bool HasHalves(absl::Span<const Tensor* const> inputs, absl::Span<const Tensor> outputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor* input) { return IsHalf(input->dtype()); }) ||
         std::any_of(outputs.begin(), outputs.end(),
                     [](const Tensor& output) { return IsHalf(output.dtype()); });
}

absl::Status ComputeInF32(absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs,
                          ComputeFunction compute) {
  absl::InlinedVector<Tensor, 4> copies;
  copies.reserve(inputs.size());  // pointers to them are handed out
  absl::InlinedVector<const Tensor*, 8> wide_inputs(inputs.begin(), inputs.end());
  for (const Tensor*& input : wide_inputs) {
    if (IsHalf(input->dtype())) {
      BW_ASSIGN_OR_RETURN(Tensor copy, Convert(*input, DType::kF32));
      input = &copies.emplace_back(std::move(copy));
    }
  }
  absl::InlinedVector<Tensor, 4> wide_outputs;
  for (Tensor& output : outputs) {
    wide_outputs.push_back(IsHalf(output.dtype()) ? Tensor(DType::kF32, output.shape())
                                                  : std::move(output));
  }
  BW_RETURN_IF_ERROR(compute(wide_inputs, absl::MakeSpan(wide_outputs)));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (IsHalf(outputs[i].dtype())) {
      BW_ASSIGN_OR_RETURN(outputs[i], Convert(wide_outputs[i], outputs[i].dtype()));
    } else {
      outputs[i] = std::move(wide_outputs[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
