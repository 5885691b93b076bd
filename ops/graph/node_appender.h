// Appends nodes to a graph whose outputs inference will describe: for what one node of a file
// becomes several of.
#ifndef BEAMWRIGHT_OPS_GRAPH_NODE_APPENDER_H_
#define BEAMWRIGHT_OPS_GRAPH_NODE_APPENDER_H_

#include <string>
#include <utility>
#include <vector>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// All of them bear the name of the file's node, which messages name then.
class NodeAppender {
 public:
  NodeAppender(Graph& graph, std::string name) : graph_(graph), name_(std::move(name)) {}

  ValueId Add(const std::string& op, std::vector<ValueId> inputs, Attributes attributes = {},
              size_t num_outputs = 1) {
    Node node;
    node.op = op;
    node.name = name_;
    node.attributes = std::move(attributes);
    node.inputs = std::move(inputs);
    node.outputs.resize(num_outputs);
    graph_.nodes.push_back(std::move(node));
    return {static_cast<int>(graph_.nodes.size()) - 1, 0};
  }

  ValueId Constant(Tensor tensor) {
    const ValueId value = Add("Constant", {});
    Node& node = graph_.nodes.back();
    node.outputs[0].dtype = tensor.dtype();
    node.outputs[0].shape = PartialShape(tensor.shape());
    node.constant = std::move(tensor);
    return value;
  }
  ValueId Int(int64_t value) { return Constant(Tensor::Scalar(value)); }
  ValueId Ints(const std::vector<int64_t>& values) {
    return Constant(Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
  }

  // An element of an axis, which is lost.
  ValueId Pick(ValueId data, int64_t index, int64_t axis) {
    return Add("Gather", {data, Int(index), Int(axis)});
  }
  ValueId Reshape(ValueId data, const std::vector<int64_t>& shape) {
    Attributes attributes;
    attributes.Set("special_zero", false);
    return Add("Reshape", {data, Ints(shape)}, std::move(attributes));
  }
  // Values joined along a new axis.
  ValueId Stack(const std::vector<ValueId>& values, int64_t axis) {
    std::vector<ValueId> parts;
    for (const ValueId value : values) {
      parts.push_back(Add("Unsqueeze", {value, Ints({axis})}));
    }
    return parts.size() == 1 ? parts[0] : Concat(parts, axis);
  }
  ValueId Concat(std::vector<ValueId> values, int64_t axis) {
    Attributes attributes;
    attributes.Set("axis", axis);
    return Add("Concat", std::move(values), std::move(attributes));
  }

  Node& last() { return graph_.nodes.back(); }

 private:
  Graph& graph_;
  std::string name_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_NODE_APPENDER_H_
