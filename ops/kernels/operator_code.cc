#include "ops/kernels/operator_code.h"

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
    if (elements > kMaxTensorBytes / SizeOf(result.dtype)) {
      return Invalid("output ", i, " of shape ", result.shape.ToString(), " is larger than ",
                     kMaxTensorBytes >> 30, " GiB");
    }
    outputs[i].Resize(result.dtype, result.shape.dims());
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
