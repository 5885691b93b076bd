#include "tools/graph/run.h"

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "tools/graph/port_names.h"

namespace beamwright::ops {

absl::StatusOr<std::vector<Tensor>> OrderInputs(const Graph& graph, const TensorMap& inputs) {
  const std::vector<std::string> names = UniquePortNames(graph, graph.parameters);
  std::vector<Tensor> ordered;
  std::vector<std::string> faults;
  std::vector<std::string> allowed;
  TensorMap surplus = inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    const int node = graph.parameters[i];
    const ValueInfo& info = graph.node(node).outputs[0];
    allowed.push_back(absl::StrCat("'", names[i], "' ", Name(info.dtype), info.shape.ToString()));
    const auto it = inputs.find(names[i]);
    if (it == inputs.end()) {
      faults.push_back(absl::StrCat("'", names[i], "' is missing"));
      continue;
    }
    surplus.erase(names[i]);
    if (!CheckParameter(graph, node, it->second).ok()) {
      faults.push_back(absl::StrCat("'", names[i], "' is ", Name(it->second.dtype()),
                                    ToString(it->second.shape())));
    }
    ordered.push_back(it->second);
  }
  for (const auto& [name, tensor] : surplus) {
    faults.push_back(absl::StrCat("'", name, "' is not known"));
  }
  if (!faults.empty()) {
    return Invalid("inputs: ", absl::StrJoin(faults, ", "), "; the model's inputs are: ",
                   allowed.empty() ? "none" : absl::StrJoin(allowed, ", "));
  }
  return ordered;
}

absl::StatusOr<TensorMap> RunModel(const Model& model, const ExecutionContext& context,
                                   const TensorMap& inputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> ordered, OrderInputs(model.graph(), inputs));
  std::vector<Tensor> outputs;
  BW_RETURN_IF_ERROR(model.Run(context, ordered, outputs));
  const std::vector<std::string> names = UniquePortNames(model.graph(), model.graph().results);
  TensorMap result;
  for (size_t i = 0; i < names.size(); ++i) {
    result[names[i]] = outputs[i];
  }
  return result;
}

}  // namespace beamwright::ops
