// DropDeadOutputs: the second output of MaxPool goes where nothing reads it.
//
//   before: MaxPool -> values, indices    nothing reads the indices
//   after:  MaxPool -> values
//
// The indices, where each maximum is, count from the first row: files declare them whether they are
// read or not, and only where they are read do rows belong together.
#include <vector>

#include "ops/passes/passes.h"

namespace beamwright::ops {

absl::StatusOr<bool> DropDeadOutputs(Graph& graph, GraphInfo& info,
                                     const PassContext& /*context*/) {
  bool any = false;
  std::vector<bool> is_read(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId& input : node.inputs) {
      if (input.present() && input.output == 1) {
        is_read[static_cast<size_t>(input.node)] = true;
      }
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op == "MaxPool" && node.outputs.size() == 2 && !is_read[i]) {
      node.outputs.resize(1);
      any = true;
      if (!info.constants[i].empty()) {
        info.constants[i].resize(1);
      }
    }
  }
  return any;
}

}  // namespace beamwright::ops
