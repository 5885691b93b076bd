#include "ops/import/onnx_scope.h"

#include "ops/base/status.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {

std::optional<ValueId> OnnxScope::Find(const std::string& name) {
  const auto known = values_.find(name);
  if (known != values_.end()) {
    return known->second;
  }
  const auto initializer = initializers_.find(name);
  if (initializer != initializers_.end()) {
    absl::StatusOr<Tensor> tensor = tensors_.Read(*initializer->second);
    if (!tensor.ok()) {
      builder_.Fail(Annotate(tensor.status(), absl::StrCat("initializer ", Quote(name))));
      return std::nullopt;
    }
    Node node;
    node.op = "Constant";
    node.name = name;
    node.constant = *std::move(tensor);
    node.outputs.resize(1);
    node.outputs[0].names = {name};
    const ValueId value = builder_.Add(std::move(node));
    Define(name, value);
    return value;
  }
  if (outer_ == nullptr) {
    return std::nullopt;
  }
  const std::optional<ValueId> outside = outer_->Find(name);
  if (!outside.has_value() || !outside->present()) {
    builder_.Fail(outer_->builder().status());
    return outside;
  }
  ValueId inside;
  if (const Tensor* tensor = outer_->builder().known(*outside); tensor != nullptr) {
    Node node;
    node.op = "Constant";
    node.name = name;
    node.constant = *tensor;
    node.outputs.resize(1);
    inside = builder_.Add(std::move(node));
  } else {
    ValueInfo info = outer_->builder().info(*outside);
    info.names = {name};
    captures_.push_back({*outside, static_cast<int>(builder_.graph().parameters.size())});
    inside = builder_.Parameter(name, std::move(info));
  }
  Define(name, inside);
  return inside;
}

}  // namespace beamwright::ops
