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

  GraphBuilder() = default;
  // Goes on with a graph.
  explicit GraphBuilder(ops::Graph graph) : graph_(std::move(graph)) {}

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

  // The first input is the condition, the others are the Parameters of both branches, in order; the
  // branches' Results are the outputs.
  Value If(std::vector<Value> inputs, ops::Graph then_branch, ops::Graph else_branch) {
    auto branches = std::make_shared<ops::If>();
    branches->then_branch = AllOf(std::move(then_branch));
    branches->else_branch = AllOf(std::move(else_branch));
    const auto count = static_cast<int>(branches->then_branch.results.size());
    const Value value = Add("If", std::move(inputs), {}, "if", count);
    graph_.nodes.back().branches = std::move(branches);
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
  static ops::Branch AllOf(ops::Graph body) {
    ops::Branch branch;
    for (size_t i = 0; i < body.parameters.size(); ++i) {
      branch.inputs.push_back(static_cast<int>(i) + 1);
    }
    for (size_t i = 0; i < body.results.size(); ++i) {
      branch.results.push_back(static_cast<int>(i));
    }
    branch.body = std::move(body);
    return branch;
  }

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
inline ops::LoopInput Iteration(int parameter) {
  ops::LoopInput rule;
  rule.kind = ops::LoopInput::Kind::kIteration;
  rule.body_parameter = parameter;
  return rule;
}
// As a Scan slices: one element, without its axis.
inline ops::LoopInput Scanned(int input, int parameter, int64_t axis = 0, bool reversed = false) {
  ops::LoopInput rule =
      reversed ? Sliced(input, parameter, axis, -1, 0, -1) : Sliced(input, parameter, axis);
  rule.drop_axis = true;
  rule.may_be_empty = true;
  return rule;
}
inline ops::LoopOutput Stacked(int output, int result, int64_t axis = 0, bool reversed = false) {
  ops::LoopOutput rule = Joined(output, result, axis, reversed);
  rule.kind = ops::LoopOutput::Kind::kStacked;
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
