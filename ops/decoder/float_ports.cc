#include "ops/decoder/float_ports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/compile/graph_copy.h"

namespace beamwright::ops {
namespace {

bool IsShort(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

// Whether it is a Parameter or a Result of 16-bit floats.
bool IsShortPort(const Graph& graph, const Node& node) {
  return (node.op == "Parameter" && IsShort(node.outputs[0].dtype)) ||
         (node.op == "Result" && IsShort(graph.info(node.inputs[0]).dtype));
}

ValueId AppendConvert(Graph& graph, const std::string& name, ValueId value, DType dtype) {
  Node convert;
  convert.op = "Convert";
  convert.name = name;
  convert.attributes.Set("destination_type", std::string(Name(dtype)));
  convert.inputs = {value};
  convert.outputs.resize(1);
  convert.outputs[0].dtype = dtype;
  return AppendNode(graph, std::move(convert));
}

}  // namespace

void TakeAndGiveF32(Graph& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [&graph](const Node& node) { return IsShortPort(graph, node); })) {
    return;
  }
  GraphCopy copy(graph);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& old = graph.node(i);
    Node node = copy.Moved(i);
    if (!IsShortPort(graph, old)) {
      copy.Keep(i, std::move(node));
    } else if (old.op == "Parameter") {
      node.outputs[0].dtype = DType::kF32;
      const ValueId taken = copy.Keep(i, std::move(node));
      copy.Replace({i, 0}, AppendConvert(copy.to(), old.name, taken, old.outputs[0].dtype));
    } else {
      node.inputs[0] = AppendConvert(copy.to(), old.name, node.inputs[0], DType::kF32);
      copy.Keep(i, std::move(node));
    }
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
}

}  // namespace beamwright::ops
