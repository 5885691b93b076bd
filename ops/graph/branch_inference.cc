#include "ops/graph/branch_inference.h"

#include "ops/base/status.h"
#include "ops/graph/value_info.h"

namespace beamwright::ops {

absl::Status PrepareBranch(const Branch& branch, absl::Span<const InputInfo> inputs, Graph& body,
                           std::vector<Tensor>& constants) {
  constants.assign(body.parameters.size(), Tensor());
  for (size_t i = 0; i < branch.inputs.size(); ++i) {
    const InputInfo& outside = inputs[static_cast<size_t>(branch.inputs[i])];
    const Node& parameter = body.node(body.parameters[i]);
    BW_RETURN_IF_ERROR(
        SetParameter(absl::StrCat("input ", branch.inputs[i], " (", Describe(parameter), ")"), body,
                     i, outside.dtype, outside.shape));
    if (outside.value != nullptr) {
      constants[i] = *outside.value;
    }
  }
  return absl::OkStatus();
}

absl::Status InferBranchOutputs(const Branch* then_branch, const Branch* else_branch,
                                std::vector<ValueInfo>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueInfo* infos[2] = {nullptr, nullptr};
    size_t count = 0;
    for (const Branch* branch : {then_branch, else_branch}) {
      if (branch != nullptr) {
        infos[count++] = &ResultInfo(branch->body, branch->results[i]);
      }
    }
    const ValueInfo& first = *infos[0];
    const ValueInfo& second = count == 2 ? *infos[1] : first;
    if (first.dtype != second.dtype) {
      return Invalid("output ", i, " is ", Name(first.dtype), " from the then branch and ",
                     Name(second.dtype), " from the else branch");
    }
    outputs[i].dtype = first.dtype;
    outputs[i].shape = JoinShapes(first.shape, second.shape);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
