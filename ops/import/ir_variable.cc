#include "ops/import/ir_variable.h"

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/import/ir_text.h"

namespace beamwright::ops {
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
