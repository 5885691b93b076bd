#include "ops/graph/deferred_fold.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/base/status.h"
#include "ops/tensor/deferred.h"

namespace beamwright::ops {
namespace {

// Output `index` of the kernel, straight into `out` where the kernel can write there.
absl::Status FillOutput(const Kernel& kernel, const std::vector<Tensor>& values, size_t num_outputs,
                        size_t index, const ValueInfo& info, std::byte* out) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& value : values) {
    inputs.push_back(&value);
  }
  std::vector<Tensor> outputs(num_outputs);
  outputs[index] = Tensor(info.dtype, info.shape.dims(),
                          std::shared_ptr<std::byte>(out, [](std::byte*) {}), nullptr);
  BW_RETURN_IF_ERROR(kernel.Run(ExecutionContext(), inputs, absl::MakeSpan(outputs)));
  const Tensor& result = outputs[index];
  if (result.place() != out) {
    std::memcpy(out, result.bytes(), static_cast<size_t>(result.num_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DeferResults(std::shared_ptr<const Kernel> kernel,
                          absl::Span<const Tensor* const> values, std::vector<Tensor>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor& result = results[i];
    const bool is_view = std::any_of(values.begin(), values.end(), [&result](const Tensor* value) {
      return value->has_value() && result.place() >= value->place() &&
             result.place() < value->place() + value->num_bytes();
    });
    if (is_view || !result.has_value() || !IsDeferred(result.num_bytes())) {
      continue;
    }
    std::vector<Tensor> inputs;
    for (const Tensor* const value : values) {
      inputs.push_back(*value);
    }
    const ValueInfo info{result.dtype(), PartialShape(result.shape()), {}};
    result = Tensor();
    BW_ASSIGN_OR_RETURN(result, MakeConstant(info.dtype, info.shape.dims(),
                                             [kernel, inputs = std::move(inputs),
                                              count = results.size(), i, info](std::byte* out) {
                                               return FillOutput(*kernel, inputs, count, i, info,
                                                                 out);
                                             }));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
