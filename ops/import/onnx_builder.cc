// Builds a graph node by node, for the importer of ONNX. Each node that is added is inferred at
// once (InferAppended), so that the next one can be translated by the types, shapes and known
// values of its inputs (info, known).
//
// The first error is kept, and later calls do nothing, so that callers check once. A lenient
// builder, for tools that look at files, notes faults of inference and goes on, except for those of
// resources.
#include "ops/import/onnx_builder.h"

#include "ops/graph/file_operator.h"
#include "ops/import/known_operators.h"

namespace beamwright::ops {

OnnxBuilder::OnnxBuilder(bool lenient)
    : inference_(graph_, KnownOperatorSet()), depth_(0), lenient_(lenient) {}

OnnxBuilder::OnnxBuilder(OnnxBuilder* outside)
    : inference_(graph_, outside->inference_),
      depth_(outside->depth_ + 1),
      lenient_(outside->lenient_) {}

void OnnxBuilder::Fail(absl::Status status) {
  if (status_.ok() && !status.ok()) {
    status_ = std::move(status);
  }
}

void OnnxBuilder::BecomeLenient() {
  lenient_ = true;
  for (size_t left = graph_.nodes.size(); left > 0 && !inference_.InferAppended().ok(); --left) {
  }
}

ValueId OnnxBuilder::Add(Node node) {
  if (!ok()) {
    return {};
  }
  if (node.name.empty()) {
    node.name = name_;
  }
  graph_.nodes.push_back(std::move(node));
  InferAppended();
  return ok() ? ValueId{static_cast<int>(graph_.nodes.size()) - 1, 0} : ValueId();
}

ValueId OnnxBuilder::Add(std::string op, std::vector<ValueId> inputs, AttributeList attributes,
                         int num_outputs) {
  Node node;
  node.op = std::move(op);
  node.inputs = std::move(inputs);
  node.outputs.resize(static_cast<size_t>(num_outputs));
  for (auto& [name, value] : attributes) {
    node.attributes.Set(name, std::move(value));
  }
  return Add(std::move(node));
}

void OnnxBuilder::InferAppended() {
  if (!ok()) {
    return;
  }
  if (!file_operator_.empty()) {
    SetFileOperator(file_operator_, num_inferred_, graph_);
  }
  num_inferred_ = graph_.nodes.size();
  const absl::Status status = inference_.InferAppended();
  if (!lenient_ || absl::IsResourceExhausted(status)) {
    Fail(status);
  } else if (inference_fault_.ok()) {
    inference_fault_ = status;
  }
}

ValueId OnnxBuilder::Constant(Tensor tensor) {
  Node node;
  node.op = "Constant";
  node.constant = std::move(tensor);
  node.outputs.resize(1);
  return Add(std::move(node));
}

ValueId OnnxBuilder::Parameter(std::string name, ValueInfo info) {
  Node node;
  node.op = "Parameter";
  node.name = std::move(name);
  node.outputs.push_back(std::move(info));
  const ValueId value = Add(std::move(node));
  if (value.present()) {
    graph_.parameters.push_back(value.node);
  }
  return value;
}

void OnnxBuilder::Result(std::string name, ValueId value) {
  Node node;
  node.op = "Result";
  node.name = std::move(name);
  node.inputs = {value};
  const ValueId added = Add(std::move(node));
  if (added.present()) {
    graph_.results.push_back(added.node);
  }
}

void OnnxBuilder::Declare(ValueId value, const ValueInfo& declared) {
  if (ok() && value.present()) {
    const absl::Status status = inference_.Declare(value, declared);
    if (!lenient_) {
      Fail(status);
    }
  }
}

void OnnxBuilder::DeclareOutput(ValueId value, const ValueInfo& declared, const std::string& name) {
  if (!ok() || !value.present()) {
    return;
  }
  Declare(value, {declared.dtype, PartialShape(), {}});
  if (!ok()) {
    return;
  }
  const absl::Status status = inference_.Declare(value, declared);
  if (!status.ok()) {
    graph_.warnings.push_back(
        absl::StrCat("'", name, "': ", status.message(), "; the declared shape is passed over"));
  }
}

void OnnxBuilder::AddName(ValueId value, const std::string& name) {
  if (value.present()) {
    graph_.node(value.node).outputs[static_cast<size_t>(value.output)].names.push_back(name);
  }
}

const ValueInfo& OnnxBuilder::info(ValueId value) const {
  static const auto* const nothing = new ValueInfo;
  return value.present() ? graph_.info(value) : *nothing;
}

const Tensor* OnnxBuilder::known(ValueId value) const {
  if (!value.present()) {
    return nullptr;
  }
  const Tensor& tensor =
      inference_.info()
          .constants[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  return tensor.has_value() ? &tensor : nullptr;
}

}  // namespace beamwright::ops
