#include "ops/kernels/elementwise_binary.h"

#include "ops/base/status.h"
#include "ops/kernels/inputs.h"

namespace beamwright::ops {

absl::StatusOr<bool> ParseAutoBroadcast(const Node& node) {
  BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("auto_broadcast", "numpy"));
  if (mode != "numpy" && mode != "none") {
    return Invalid("attribute auto_broadcast: '", mode, "' is not supported, only numpy and none");
  }
  return mode == "numpy";
}

absl::Status BinaryShapes(bool broadcast, absl::Span<const InputInfo> inputs,
                          absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
  if (inputs[0].dtype != inputs[1].dtype) {
    return Invalid("element types ", Name(inputs[0].dtype), " and ", Name(inputs[1].dtype),
                   " of the inputs differ");
  }
  if (!broadcast && inputs[0].shape.has_rank() && inputs[1].shape.has_rank()) {
    bool equal = inputs[0].shape.rank() == inputs[1].shape.rank();
    for (int i = 0; equal && i < inputs[0].shape.rank(); ++i) {
      equal = MergeExtents(inputs[0].shape.dim(i), inputs[1].shape.dim(i)).ok();
    }
    if (!equal) {
      return Invalid("shapes ", inputs[0].shape.ToString(), " and ", inputs[1].shape.ToString(),
                     " differ, and auto_broadcast is 'none'");
    }
  }
  outputs[0].dtype = inputs[0].dtype;
  BW_ASSIGN_OR_RETURN(outputs[0].shape, BroadcastPartial(inputs[0].shape, inputs[1].shape));
  return absl::OkStatus();
}

}  // namespace beamwright::ops
