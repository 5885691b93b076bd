// OnnxNode: what the translator of an ONNX operator uses: inputs and outputs by number, attributes
// by name and type, constants, and known values. Every attribute that is read is noted (read_);
// CheckAllRead refuses a node with an attribute that its translator does not know, because ignoring
// it could change the results.
//
// A fault does not end the translator: it is kept in the builder, and further values are empty, so
// that translators need no checks after each step. Inside a function, attributes may refer to those
// of the call (place_.attributes); what is copied so is counted against a limit.
#include "ops/import/onnx_node.h"

#include <algorithm>

#include "ops/graph/graph.h"
#include "ops/import/graph_file.h"
#include "ops/import/onnx_graph.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_order.h"

namespace beamwright::ops {

// Builds a graph node by node, for the importer of ONNX. Each node that is added is inferred at
// once (InferAppended), so that the next one can be translated by the types, shapes and known
// values of its inputs (info, known).
//
// The first error is kept, and later calls do nothing, so that callers check once. A lenient
// builder, for tools that look at files, notes faults of inference and goes on, except for those of
// resources.

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

// After a fault: the nodes that were appended and not inferred are inferred now, as far as that
// goes.
void OnnxBuilder::BecomeLenient() {
  lenient_ = true;
  for (size_t left = graph_.nodes.size(); left > 0 && !inference_.InferAppended().ok(); --left) {
  }
}

// The one place where nodes come in. Empty after a fault.
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

// One node of the file may become several here; all of them get the file's operator as an
// attribute, by which messages name them.
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

// A declared type must be right. A declared shape may be wrong, as exporters leave shapes of an
// example: then the inferred one stays, with a warning.
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

using onnx::AttributeProto;

OnnxNode::OnnxNode(const OnnxPlace& place, const OnnxOperator& op, const onnx::NodeProto& proto,
                   int version, std::vector<ValueId> inputs)
    : place_(place),
      op_(op),
      proto_(proto),
      builder_(place.scope.builder()),
      version_(version),
      inputs_(std::move(inputs)),
      outputs_(static_cast<size_t>(proto.output_size())) {}

ValueId OnnxNode::In(int index) const {
  return index < num_inputs() ? inputs_[static_cast<size_t>(index)] : ValueId();
}

bool OnnxNode::Wants(int index) const {
  return index < proto_.output_size() && !proto_.output(index).empty();
}

void OnnxNode::Out(int index, ValueId value) {
  if (index < proto_.output_size()) {
    outputs_[static_cast<size_t>(index)] = value;
  }
}

// Every reading of an attribute comes through here, so every one is noted, counted if it came from
// a call, and checked for its kind.
const AttributeProto* OnnxNode::Find(const char* name, AttributeProto::AttributeType type) {
  read_.insert(name);
  const AttributeProto* attribute = FindOnnxAttribute(proto_, name, place_.attributes);
  if (attribute == nullptr) {
    return nullptr;
  }
  if (place_.attributes != nullptr && attribute->type() != AttributeProto::GRAPH) {
    builder_.Fail(AddCopied(CopiedBytes(*attribute), place_.import));
  }
  // Files older than the field leave the type out.
  if (type != AttributeProto::UNDEFINED && attribute->type() != AttributeProto::UNDEFINED &&
      attribute->type() != type) {
    Fail("attribute '", name, "' is of kind ",
         AttributeProto::AttributeType_Name(attribute->type()), "; it must be ",
         AttributeProto::AttributeType_Name(type));
    return nullptr;
  }
  return attribute;
}

bool OnnxNode::HasAttribute(const char* name) {
  return Find(name, AttributeProto::UNDEFINED) != nullptr;
}

int64_t OnnxNode::Int(const char* name, int64_t fallback) {
  const AttributeProto* attribute = Find(name, AttributeProto::INT);
  return attribute == nullptr ? fallback : attribute->i();
}

bool OnnxNode::Flag(const char* name, bool fallback) {
  const int64_t value = Int(name, fallback ? 1 : 0);
  if (value != 0 && value != 1) {
    Fail("attribute '", name, "' is ", value, "; it must be 0 or 1");
  }
  return value == 1;
}

double OnnxNode::Float(const char* name, double fallback) {
  const AttributeProto* attribute = Find(name, AttributeProto::FLOAT);
  return attribute == nullptr ? fallback : static_cast<double>(attribute->f());
}

std::string OnnxNode::String(const char* name, const char* fallback) {
  const AttributeProto* attribute = Find(name, AttributeProto::STRING);
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

std::vector<int64_t> OnnxNode::Ints(const char* name, std::vector<int64_t> fallback) {
  const AttributeProto* attribute = Find(name, AttributeProto::INTS);
  return attribute == nullptr
             ? std::move(fallback)
             : std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::vector<double> OnnxNode::Floats(const char* name) {
  const AttributeProto* attribute = Find(name, AttributeProto::FLOATS);
  return attribute == nullptr
             ? std::vector<double>()
             : std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

std::vector<std::string> OnnxNode::Strings(const char* name) {
  const AttributeProto* attribute = Find(name, AttributeProto::STRINGS);
  return attribute == nullptr
             ? std::vector<std::string>()
             : std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

const onnx::GraphProto* OnnxNode::Subgraph(const char* name) {
  const AttributeProto* attribute = Find(name, AttributeProto::GRAPH);
  return attribute == nullptr ? nullptr : &attribute->g();
}

Tensor OnnxNode::TensorAttribute(const char* name) {
  const AttributeProto* attribute = Find(name, AttributeProto::TENSOR);
  if (attribute == nullptr) {
    return {};
  }
  absl::StatusOr<Tensor> tensor = place_.import.tensors.Read(attribute->t());
  if (!tensor.ok()) {
    builder_.Fail(Annotate(tensor.status(), absl::StrCat("attribute '", name, "'")));
    return {};
  }
  return *std::move(tensor);
}

absl::Status OnnxNode::CheckAllRead() const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (!read_.contains(attribute.name())) {
      return absl::UnimplementedError(absl::StrCat("attribute ", Quote(attribute.name()),
                                                   " is not known to ", op_.name, " of opset ",
                                                   version_));
    }
  }
  return absl::OkStatus();
}

// For nodes of unknown operators, which are shown and not run: attributes that are numbers and
// texts.
Attributes OnnxNode::PlainAttributes() const {
  Attributes result;
  for (const AttributeProto& attribute : proto_.attribute()) {
    switch (attribute.type()) {
      case AttributeProto::INT:
        result.Set(attribute.name(), attribute.i());
        break;
      case AttributeProto::FLOAT:
        result.Set(attribute.name(), static_cast<double>(attribute.f()));
        break;
      case AttributeProto::STRING:
        result.Set(attribute.name(), attribute.s());
        break;
      case AttributeProto::INTS:
        result.Set(attribute.name(),
                   std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end()));
        break;
      case AttributeProto::FLOATS:
        result.Set(attribute.name(),
                   std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
        break;
      default:
        break;
    }
  }
  return result;
}

ValueId OnnxNode::List(const std::vector<int64_t>& values) {
  return Constant(Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

// A scalar of the element type of `x`.
ValueId OnnxNode::Like(double value, ValueId x) {
  const DType dtype = Type(x);
  if (!ok()) {
    return {};
  }
  absl::StatusOr<Tensor> scalar = Convert(Tensor::Scalar<double>(value), dtype);
  if (!scalar.ok()) {
    builder_.Fail(scalar.status());
    return {};
  }
  return Constant(*std::move(scalar));
}

DType OnnxNode::Type(ValueId value) {
  const DType dtype = info(value).dtype;
  if (dtype == DType::kUndefined) {
    Fail("the element type of an input must be known here");
  }
  return dtype;
}

int OnnxNode::Rank(ValueId value) {
  if (!HasRank(value)) {
    Fail(
        "the rank of an input must be known here; give shapes to the graph's inputs or to its "
        "value_info");
    return 0;
  }
  return info(value).shape.rank();
}

int OnnxNode::Axis(int64_t axis, int rank) {
  const absl::StatusOr<int> normal = NormalizeAxis(axis, rank);
  if (!normal.ok()) {
    builder_.Fail(normal.status());
    return 0;
  }
  return *normal;
}

// For inputs that were attributes in older opsets, such as axes: they must be known at load.
std::vector<int64_t> OnnxNode::KnownInts(int input, const char* name) {
  const Tensor* tensor = Known(In(input));
  if (tensor == nullptr) {
    Unsupported("input ", input, " (", name, ") must be a constant");
    return {};
  }
  absl::StatusOr<std::vector<int64_t>> values = ToInt64(*tensor);
  if (!values.ok()) {
    builder_.Fail(Annotate(values.status(), name));
    return {};
  }
  return *std::move(values);
}

}  // namespace beamwright::ops
