// Small changes to graphs, for passes that make one graph out of another.
#ifndef BEAMWRIGHT_OPS_GRAPH_REWRITE_H_
#define BEAMWRIGHT_OPS_GRAPH_REWRITE_H_

#include <string>
#include <utility>
#include <vector>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// The nodes marked in `keep` in their order; Parameters and Results that are not marked leave the
// lists as well. Kept nodes must not read others. `moved`, unless null, becomes the new index of
// each old node, -1 for those left out.
Graph KeepNodes(const Graph& graph, const std::vector<bool>& keep,
                std::vector<int>* moved = nullptr);

// Forgets the elements of large constants, in loop bodies and branches too; types and shapes stay.
// For graphs that have been inferred: what compiling needs is in GraphInfo, and weights need not
// outlive that, as kernels have theirs. Small ones stay, which inferring anew may ask for.
void DropLargeConstants(Graph& graph);

// Appends nodes to a graph whose outputs inference will describe: for what one node of a file
// becomes several of.

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

#endif  // BEAMWRIGHT_OPS_GRAPH_REWRITE_H_
