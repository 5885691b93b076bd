#include "ops/import/ir_branches.h"

#include <utility>

#include "ops/base/status.h"
#include "ops/import/ir_port_map.h"

namespace beamwright::ops {
namespace {

absl::Status AddRule(const IrLayer& layer, const IrGraph& body, const IrPortRule& rule,
                     bool is_input, Branch& branch) {
  if (rule.has_axis || !rule.purpose.empty()) {
    return Invalid("a branch has no slices and no purposes");
  }
  const char* const kind = is_input ? "Parameter" : "Result";
  BW_ASSIGN_OR_RETURN(const int inner, FindBodyLayer(is_input ? body.parameters : body.results,
                                                     rule.internal_id, kind));
  const int outer = (is_input ? layer.inputs : layer.outputs).Find(rule.external_id);
  if (outer < 0) {
    return Invalid("the layer has no ", is_input ? "input" : "output", " port ", rule.external_id);
  }
  // An input belongs to a Parameter, an output comes from a Result.
  int& connected = is_input ? branch.inputs[static_cast<size_t>(inner)]
                            : branch.results[static_cast<size_t>(outer)];
  if (connected >= 0) {
    return is_input ? Invalid("another rule feeds Parameter ", rule.internal_id)
                    : Invalid("another rule writes output port ", rule.external_id);
  }
  connected = is_input ? outer : inner;
  return absl::OkStatus();
}

absl::StatusOr<Branch> ReadBranch(const IrLayer& layer, const char* map_element,
                                  const char* body_element, IrImport& import) {
  BW_ASSIGN_OR_RETURN(IrGraph body, BuildInnerGraph(layer, body_element, import));
  Branch branch;
  branch.inputs.assign(body.graph.parameters.size(), -1);
  branch.results.assign(layer.outputs.size(), -1);
  for (const pugi::xml_node xml : layer.xml.child(map_element).children()) {
    const absl::string_view direction = xml.name();
    if (direction != "input" && direction != "output") {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const IrPortRule rule, ReadPortRule(xml));
    const absl::Status status = AddRule(layer, body, rule, direction == "input", branch);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat(map_element, ": ", Describe(rule, direction)));
    }
  }
  for (size_t i = 0; i < branch.inputs.size(); ++i) {
    if (branch.inputs[i] < 0) {
      return Invalid(map_element, ": ", Describe(body.graph.node(body.graph.parameters[i])),
                     " has no rule");
    }
  }
  for (size_t i = 0; i < branch.results.size(); ++i) {
    if (branch.results[i] < 0) {
      return Invalid(map_element, ": output port ", layer.outputs[i].id, " has no rule");
    }
  }
  branch.body = std::move(body.graph);
  return branch;
}

}  // namespace

absl::StatusOr<If> TranslateIf(const IrLayer& layer, const Tensor& condition, IrImport& import) {
  if (layer.inputs.size() == 0) {
    return Invalid("has no inputs; the first must be its condition");
  }
  If result;
  if (condition.dtype() == DType::kBool && condition.num_elements() == 1) {
    // Only the branch that is taken is looked at; it stands for the other one too.
    const bool then = *condition.data<bool>();
    BW_ASSIGN_OR_RETURN(result.then_branch,
                        ReadBranch(layer, then ? "then_port_map" : "else_port_map",
                                   then ? "then_body" : "else_body", import));
    result.else_branch = result.then_branch;
    return result;
  }
  BW_ASSIGN_OR_RETURN(result.then_branch, ReadBranch(layer, "then_port_map", "then_body", import));
  BW_ASSIGN_OR_RETURN(result.else_branch, ReadBranch(layer, "else_port_map", "else_body", import));
  return result;
}

}  // namespace beamwright::ops
