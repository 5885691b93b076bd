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

#include "ops/import/onnx_calls.h"
#include "ops/import/onnx_graph.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {

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
