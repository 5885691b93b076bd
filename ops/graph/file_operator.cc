#include "ops/graph/file_operator.h"

#include <memory>
#include <utility>

namespace beamwright::ops {

void SetFileOperator(const std::string& type, size_t begin, Graph& graph) {
  // Nodes in the bodies of a file's own loops bear their names already.
  const bool is_loop = type == "Loop" || type == "Scan" || type == "TensorIterator";
  for (size_t i = begin; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const bool is_port = node.op == "Constant" || node.op == "Parameter" || node.op == "Result";
    if (is_port || node.op == type || node.attributes.Has(kFileOperator)) {
      continue;
    }
    node.attributes.Set(kFileOperator, type);
    if (node.loop != nullptr && !is_loop) {
      auto loop = std::make_shared<Loop>(*node.loop);
      SetFileOperator(type, 0, loop->body);
      node.loop = std::move(loop);
    }
  }
}

}  // namespace beamwright::ops
