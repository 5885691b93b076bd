// What a request's steps start from, and what they read.
#include <algorithm>

#include "ops/base/status.h"
#include "server/engine/parts.h"

namespace beamwright::engine {

ops::Tensor DecodeModel::Parts::TokenTensor(absl::Span<const int32_t> tokens) const {
  ops::Tensor tensor;
  FillTokens(tokens, tensor);
  return tensor;
}

void DecodeModel::Parts::FillTokens(absl::Span<const int32_t> tokens, ops::Tensor& tensor) const {
  ops::Shape shape = token_shape;
  std::replace(shape.begin(), shape.end(), int64_t{-1}, static_cast<int64_t>(tokens.size()));
  tensor.Resize(token_dtype, shape);
  if (token_dtype == ops::DType::kI32) {
    std::copy(tokens.begin(), tokens.end(), tensor.mutable_data<int32_t>());
  } else {
    std::copy(tokens.begin(), tokens.end(), tensor.mutable_data<int64_t>());
  }
}

absl::Status Prepare(const DecodeModel::Parts& parts, const ops::ExecutionContext& context,
                     absl::Span<const ops::Tensor> inputs, StartValues& start) {
  ops::Slots slots = parts.prologue.MakeSlots();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int node = parts.inputs[i].node;
    BW_RETURN_IF_ERROR(CheckParameter(parts.decoder, node, inputs[i]));
    slots[static_cast<size_t>(parts.prologue.slot({node, 0}))] = inputs[i];
  }
  if (parts.prologue_measures_tokens) {
    // Initial states may be made to the target's measures: one row.
    slots[static_cast<size_t>(parts.prologue.slot({parts.token_node, 0}))] = parts.TokenTensor({0});
  }
  BW_RETURN_IF_ERROR(parts.prologue.Run(context, slots));
  const auto read = [&](const std::vector<ops::ValueId>& values) {
    std::vector<ops::Tensor> tensors;
    for (const ops::ValueId value : values) {
      tensors.push_back(value.present() ? slots[static_cast<size_t>(parts.prologue.slot(value))]
                                        : ops::Tensor());
    }
    return tensors;
  };
  start.states = read(parts.state_values);
  for (size_t i = 0; i < start.states.size(); ++i) {
    if (start.states[i].rank() < 1 || start.states[i].dim(0) != 1) {
      return Invalid("initial state ", i, " is ", ops::ToString(start.states[i].shape()),
                     "; its first axis must count rows");
    }
  }
  return parts.body->Bind(context, read(parts.invariant_values), start.values);
}

}  // namespace beamwright::engine
