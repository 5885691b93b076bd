// DropBeamIndex: exports of stateful models reorder their states by a separate input; a search
// reorders states itself.
//
//   before: Gather(state, beam_idx [rows], axis 0), for each state; nothing else reads beam_idx
//   after:  state; no Parameter beam_idx
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

bool IsZero(const Node& node) {
  if (node.op != "Constant" || node.constant.num_elements() != 1) {
    return false;
  }
  const absl::StatusOr<std::vector<int64_t>> value = ToInt64(node.constant);
  return value.ok() && value->front() == 0;
}

// Gather(Parameter, index, 0)
bool GathersRows(const Graph& graph, const Node& node, ValueId index) {
  const absl::StatusOr<int64_t> batch_dims = node.attributes.Int("batch_dims", 0);
  return node.op == "Gather" && node.inputs.size() == 3 && node.inputs[1] == index &&
         node.inputs[0] != index && graph.node(node.inputs[0].node).op == "Parameter" &&
         batch_dims.ok() && *batch_dims == 0 && IsZero(graph.node(node.inputs[2].node));
}

// The Gathers of rows that read this Parameter; empty if anything else reads it.
std::vector<size_t> GathersBy(const Graph& graph, int parameter) {
  const ValueInfo& info = graph.node(parameter).outputs[0];
  std::vector<size_t> gathers;
  if (IsFloat(info.dtype) || !info.shape.has_rank() || info.shape.rank() != 1) {
    return gathers;
  }
  const ValueId index{parameter, 0};
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (std::find(node.inputs.begin(), node.inputs.end(), index) == node.inputs.end()) {
      continue;
    }
    if (!GathersRows(graph, node, index)) {
      return {};
    }
    gathers.push_back(i);
  }
  return gathers;
}

}  // namespace

absl::StatusOr<bool> DropBeamIndex(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::vector<bool> is_index(graph.nodes.size(), false);
  std::vector<bool> is_gather(graph.nodes.size(), false);
  bool any = false;
  for (const int parameter : graph.parameters) {
    for (const size_t gather : GathersBy(graph, parameter)) {
      is_index[static_cast<size_t>(parameter)] = true;
      is_gather[gather] = true;
      any = true;
    }
  }
  if (!any) {
    return false;
  }
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    if (is_gather[i]) {
      copy.Replace({index, 0}, copy.Of(graph.nodes[i].inputs[0]));
    } else if (!is_index[i]) {
      copy.Keep(index);
    }
  }
  return TakeChanged(std::move(copy).Finish(), graph, info, context);
}

}  // namespace beamwright::ops
