// Builds graphs in tests without a file: each call adds a node and returns its first output.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_GRAPH_BUILDER_H_
#define BEAMWRIGHT_TESTS_SUPPORT_GRAPH_BUILDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph/graph.h"

namespace beamwright::testing_support {

class GraphBuilder {
 public:
  using Value = ops::ValueId;

  Value Parameter(const std::string& name, ops::DType dtype, ops::Shape shape) {
    const Value value = Add("Parameter", {}, {}, name);
    ops::ValueInfo& info = graph_.nodes.back().outputs[0];
    info.dtype = dtype;
    info.shape = ops::PartialShape(std::move(shape));
    info.names = {name};
    graph_.parameters.push_back(value.node);
    return value;
  }

  Value Constant(ops::Tensor tensor) {
    const Value value = Add("Constant", {});
    graph_.nodes.back().constant = std::move(tensor);
    return value;
  }
  Value Ints(std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return Constant(ops::Tensor::Of<int64_t>({count}, values));
  }
  Value Int(int64_t value) { return Constant(ops::Tensor::Scalar(value)); }

  Value Add(const std::string& op, std::vector<Value> inputs,
            std::vector<std::pair<std::string, ops::AttributeValue>> attributes = {},
            std::string name = "", int num_outputs = 1) {
    ops::Node node;
    node.op = op;
    node.name = name.empty() ? op + std::to_string(graph_.nodes.size()) : std::move(name);
    node.inputs = std::move(inputs);
    node.outputs.resize(static_cast<size_t>(num_outputs));
    for (auto& [key, value] : attributes) {
      node.attributes.Set(key, value);
    }
    graph_.nodes.push_back(std::move(node));
    return {static_cast<int>(graph_.nodes.size()) - 1, 0};
  }

  Value Loop(std::vector<Value> inputs, ops::Loop loop, int num_outputs) {
    const Value value = Add("Loop", std::move(inputs), {}, "loop", num_outputs);
    graph_.nodes.back().loop = std::make_shared<ops::Loop>(std::move(loop));
    return value;
  }

  void Result(const std::string& name, Value value) {
    ops::Node node;
    node.op = "Result";
    node.name = name;
    node.inputs = {value};
    graph_.nodes.push_back(std::move(node));
    graph_.results.push_back(static_cast<int>(graph_.nodes.size()) - 1);
    graph_.node(value.node).outputs[static_cast<size_t>(value.output)].names = {name};
  }

  ops::Graph Build() { return std::move(graph_); }

 private:
  ops::Graph graph_;
};

// Loop input and output rules in one line each.
inline ops::LoopInput Sliced(int input, int parameter, int64_t axis, int64_t start = 0,
                             int64_t end = -1, int64_t stride = 1, int64_t part_size = 1) {
  ops::LoopInput rule;
  rule.kind = ops::LoopInput::Kind::kSliced;
  rule.input = input;
  rule.body_parameter = parameter;
  rule.external_id = input;
  rule.axis = axis;
  rule.start = start;
  rule.end = end;
  rule.stride = stride;
  rule.part_size = part_size;
  return rule;
}
inline ops::LoopInput Carried(int input, int parameter, int result) {
  ops::LoopInput rule;
  rule.kind = ops::LoopInput::Kind::kCarried;
  rule.input = input;
  rule.body_parameter = parameter;
  rule.back_edge = result;
  rule.external_id = input;
  return rule;
}
inline ops::LoopInput Invariant(int input, int parameter) {
  ops::LoopInput rule;
  rule.kind = ops::LoopInput::Kind::kInvariant;
  rule.input = input;
  rule.body_parameter = parameter;
  rule.external_id = input;
  return rule;
}
inline ops::LoopOutput Joined(int output, int result, int64_t axis, bool reversed = false,
                              int64_t part_size = 1) {
  ops::LoopOutput rule;
  rule.kind = ops::LoopOutput::Kind::kConcatenated;
  rule.output = output;
  rule.body_result = result;
  rule.axis = axis;
  rule.reversed = reversed;
  rule.part_size = part_size;
  return rule;
}
inline ops::LoopOutput Last(int output, int result) {
  ops::LoopOutput rule;
  rule.output = output;
  rule.body_result = result;
  return rule;
}

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_GRAPH_BUILDER_H_
