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

// Whether all that reads the value passes `test`, given the node and the input's place there.
template <typename Test>
bool AllReaders(const Graph& graph, ValueId value, Test test) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<ValueId>& inputs = graph.nodes[i].inputs;
    for (size_t place = 0; place < inputs.size(); ++place) {
      if (inputs[place] == value && !test(static_cast<int>(i), place)) {
        return false;
      }
    }
  }
  return true;
}

bool ConvertsToIntegers(const Node& node) {
  const auto name = node.attributes.String("destination_type", "");
  const auto dtype = name.ok() ? ParseDType(*name) : name.status();
  return node.op == "Convert" && dtype.ok() && IsInteger(*dtype);
}

bool IsFloatIds(const Graph& graph, int parameter) {
  bool is_looked_up = false;
  const auto looks_up = [&](int reader, size_t place) {
    const bool is_gather = graph.node(reader).op == "Gather" && place == 1;
    is_looked_up = is_looked_up || is_gather;
    return is_gather || graph.node(reader).op == "ShapeOf";
  };
  const auto converts = [&](int reader, size_t) {
    const Node& node = graph.node(reader);
    return node.op == "ShapeOf" ||
           (ConvertsToIntegers(node) && AllReaders(graph, {reader, 0}, looks_up));
  };
  return AllReaders(graph, {parameter, 0}, converts) && is_looked_up;
}

}  // namespace

void TakeFloatIds(Graph& graph) {
  for (const int parameter : graph.parameters) {
    ValueInfo& info = graph.node(parameter).outputs[0];
    if (IsFloat(info.dtype) && IsFloatIds(graph, parameter)) {
      info.dtype = DType::kI64;
    }
  }
}

void TakeAndGiveF32(Graph& graph) {
  TakeFloatIds(graph);
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
