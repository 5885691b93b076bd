// Reads constants of OpenVINO's IR: the type and shape that a layer declares in <data> and on its
// port, which must agree (ReadDeclaredInfo), and its elements from the weights file
// (IrWeights::Read).
//
// Layers may share a range of the file, and then share one tensor (Take). Ranges that overlap
// otherwise would let a small file ask for much memory: all constants together may take four times
// the file's size.
#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {
namespace {

// Files store equal constants once, so distinct ranges hardly overlap.
constexpr int64_t kMaxConstantGrowth = 4;

bool Contradict(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) {
    return false;
  }
  if (a.rank() != b.rank()) {
    return true;
  }
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.dim(axis) >= 0 && b.dim(axis) >= 0 && a.dim(axis) != b.dim(axis)) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<ValueInfo> ReadDeclaredInfo(const IrLayer& layer) {
  if (layer.inputs.size() != 0 || layer.outputs.size() != 1) {
    return Invalid("has ", layer.inputs.size(), " inputs and ", layer.outputs.size(),
                   " outputs; it must have none and one");
  }
  const ValueInfo& port = layer.outputs[0].info;
  ValueInfo info = port;
  const pugi::xml_node data = layer.xml.child("data");
  if (const pugi::xml_attribute type = data.attribute("element_type")) {
    BW_ASSIGN_OR_RETURN(info.dtype, ParsePortType(type.value()));
    if (info.dtype == DType::kUndefined) {
      info.dtype = port.dtype;
    } else if (port.dtype != DType::kUndefined && port.dtype != info.dtype) {
      return Invalid("element_type is ", Name(info.dtype), ", the port's precision ",
                     Name(port.dtype));
    }
  }
  if (info.dtype == DType::kUndefined) {
    return Invalid("has no element type, neither in <data> nor on its port");
  }
  if (const pugi::xml_attribute shape = data.attribute("shape")) {
    BW_ASSIGN_OR_RETURN(info.shape, ParseShape(shape.value()));
    if (Contradict(info.shape, port.shape)) {
      return Invalid("shape is ", info.shape.ToString(), ", the port's ", port.shape.ToString());
    }
  } else if (!info.shape.has_rank()) {
    info.shape = PartialShape(Shape{});
  }
  return info;
}

absl::StatusOr<Tensor> IrWeights::Read(const IrLayer& layer) {
  BW_ASSIGN_OR_RETURN(const ValueInfo info, ReadDeclaredInfo(layer));
  if (!info.shape.is_static()) {
    return Invalid("shape ", info.shape.ToString(), " of a constant must be known");
  }
  BW_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(info.shape.dims()));
  const int64_t needed = elements * SizeOf(info.dtype);
  const pugi::xml_node data = layer.xml.child("data");
  if (!data) {
    return Invalid("has no <data>");
  }
  BW_ASSIGN_OR_RETURN(const int64_t offset, ReadInt(data, "offset"));
  BW_ASSIGN_OR_RETURN(const int64_t size, ReadInt(data, "size"));
  if (offset < 0 || size < 0) {
    return Invalid("offset ", offset, " and size ", size, " must not be negative");
  }
  // OpenVINO writes one byte for a constant without elements.
  if (size != needed && (needed != 0 || size != 1)) {
    return Invalid("size is ", size, " bytes; ", Name(info.dtype), info.shape.ToString(), " needs ",
                   needed);
  }
  if (needed == 0) {
    return Tensor(info.dtype, info.shape.dims());
  }
  if (!file_.ok()) {
    return Annotate(file_.status(), "needs the weights file");
  }
  const int64_t available = (*file_)->size();
  if (size > available || offset > available - size) {
    return Invalid("bytes from ", offset, ", ", size, " of them, lie outside the weights file of ",
                   available, " bytes");
  }
  return Take(offset, info.dtype, info.shape.dims());
}

absl::StatusOr<Tensor> IrWeights::Take(int64_t offset, DType dtype, const Shape& shape) {
  const int64_t size = NumElements(shape) * SizeOf(dtype);
  Tensor& taken = taken_[{offset, size, dtype}];
  if (!taken.has_value()) {
    const int64_t available = (*file_)->size();
    if (size > kMaxConstantGrowth * available - taken_bytes_) {
      return Invalid("the constants up to here overlap and take more than ", kMaxConstantGrowth,
                     " times the weights file of ", available, " bytes");
    }
    taken_bytes_ += size;
    BW_ASSIGN_OR_RETURN(taken, ReadTensor(*file_, offset, dtype, shape));
  }
  return taken.Reshaped(shape);
}

namespace {

absl::StatusOr<std::string> VariableId(const IrLayer& layer) {
  const std::string id = layer.xml.child("data").attribute("variable_id").value();
  if (id.empty()) {
    return Invalid("attribute 'variable_id' is missing or empty");
  }
  return id;
}

int AppendResult(const std::string& name, ValueId value, Graph& graph) {
  Node node;
  node.op = "Result";
  node.name = name;
  // Its name is the variable's, whatever the value is called.
  node.attributes.Set("port_name", name);
  node.inputs = {value};
  graph.nodes.push_back(std::move(node));
  return static_cast<int>(graph.nodes.size()) - 1;
}

}  // namespace

bool IsReadValue(const IrLayer& layer) { return absl::EqualsIgnoreCase(layer.type, "ReadValue"); }
bool IsAssign(const IrLayer& layer) { return absl::EqualsIgnoreCase(layer.type, "Assign"); }

absl::StatusOr<ValueId> IrVariables::Read(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                          Graph& graph) {
  BW_ASSIGN_OR_RETURN(const std::string id, VariableId(layer));
  if (!read_.insert(id).second) {
    return Invalid("another ReadValue reads variable '", id, "'");
  }
  if (inputs.size() > 1 || layer.outputs.size() != 1) {
    return Invalid("has ", inputs.size(), " inputs and ", layer.outputs.size(),
                   " outputs; it takes one input at most and has one output");
  }
  ValueInfo info = layer.outputs[0].info;
  const pugi::xml_node data = layer.xml.child("data");
  if (info.dtype == DType::kUndefined) {
    BW_ASSIGN_OR_RETURN(info.dtype, ParsePortType(data.attribute("variable_type").value()));
  }
  if (info.dtype == DType::kUndefined && !inputs.empty()) {
    info.dtype = graph.info(inputs[0]).dtype;
  }
  if (info.dtype == DType::kUndefined) {
    return Invalid("the type of variable '", id, "' is not declared");
  }
  if (!info.shape.has_rank() && data.attribute("variable_shape")) {
    BW_ASSIGN_OR_RETURN(info.shape, ParseShape(data.attribute("variable_shape").value()));
  }
  info.names = {id};
  Node node;
  node.op = "Parameter";
  node.name = id;
  node.outputs = {std::move(info)};
  graph.nodes.push_back(std::move(node));
  parameters_.push_back(static_cast<int>(graph.nodes.size()) - 1);
  if (!inputs.empty()) {
    results_.push_back(AppendResult(absl::StrCat(id, "/initial"), inputs[0], graph));
  }
  return ValueId{parameters_.back(), 0};
}

absl::StatusOr<ValueId> IrVariables::Write(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                           Graph& graph) {
  BW_ASSIGN_OR_RETURN(const std::string id, VariableId(layer));
  if (!written_.insert(id).second) {
    return Invalid("another Assign writes variable '", id, "'");
  }
  if (inputs.size() != 1 || layer.outputs.size() > 1) {
    return Invalid("has ", inputs.size(), " inputs and ", layer.outputs.size(),
                   " outputs; it takes one input and has one output at most");
  }
  results_.push_back(AppendResult(id, inputs[0], graph));
  return inputs[0];
}

}  // namespace beamwright::ops
