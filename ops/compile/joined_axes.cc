#include "ops/compile/joined_axes.h"

#include <algorithm>
#include <utility>

#include "ops/compile/program.h"
#include "ops/compile/shape_targets.h"
#include "ops/graph/rewrite.h"

namespace beamwright::ops {
namespace {

// Between the two Reshapes.
constexpr size_t kMostNodes = 8;

class Splitter {
 public:
  Splitter(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents) {}

  bool Run(Graph& split) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node node = graph_.nodes[i];
      const std::vector<int> layer = LayerBefore(static_cast<int>(i));
      if (!layer.empty()) {
        moved_.push_back(Split(static_cast<int>(i), layer, split));
        changed_ = true;
        continue;
      }
      Move(node);
      moved_.push_back(static_cast<int>(split.nodes.size()));
      split.nodes.push_back(std::move(node));
    }
    for (const int parameter : graph_.parameters) {
      split.parameters.push_back(moved_[static_cast<size_t>(parameter)]);
    }
    for (const int result : graph_.results) {
      split.results.push_back(moved_[static_cast<size_t>(result)]);
    }
    return changed_;
  }

 private:
  void Move(Node& node) const {
    for (ValueId& input : node.inputs) {
      input.node = input.present() ? moved_[static_cast<size_t>(input.node)] : -1;
    }
  }

  // The nodes from the Reshape that joins axes to the one before `index`, a Reshape that takes them
  // apart again; empty if it is none.
  std::vector<int> LayerBefore(int index) const {
    const Node& last = graph_.node(index);
    if (last.op != "Reshape" || info_.IsKnown(index)) {
      return {};
    }
    std::vector<int> layer;
    int node = last.inputs[0].node;
    while (layer.size() < kMostNodes) {
      layer.push_back(node);
      if (graph_.node(node).op == "Reshape") {
        std::reverse(layer.begin(), layer.end());
        return layer.size() > 1 && !Pattern(index, layer).empty() ? layer : std::vector<int>();
      }
      const int before = DataInput(node);
      if (before < 0) {
        return {};
      }
      node = graph_.node(node).inputs[static_cast<size_t>(before)].node;
    }
    return {};
  }

  // The input that a node works on axis by axis, where only the last axis matters: of a product
  // with a known matrix, or of arithmetic with a known vector. -1: it is another node.
  int DataInput(int index) const {
    const Node& node = graph_.node(index);
    const std::vector<InputInfo> inputs = info_.InputsOf(graph_, node);
    if (node.op == "MatMul") {
      const bool plain = !node.attributes.Bool("transpose_a", false).value_or(true);
      return plain && inputs[1].value != nullptr && inputs[1].shape.rank() == 2 ? 0 : -1;
    }
    if (node.op != "Add" && node.op != "Multiply" && node.op != "Subtract") {
      return node.inputs.size() == 1 &&
                     (node.op == "Tanh" || node.op == "ReLU" || node.op == "Sigmoid")
                 ? 0
                 : -1;
    }
    for (int data = 0; data < 2; ++data) {
      const InputInfo& other = inputs[static_cast<size_t>(1 - data)];
      if (other.value != nullptr && other.shape.rank() <= 1 &&
          inputs[static_cast<size_t>(data)].value == nullptr) {
        return data;
      }
    }
    return -1;
  }

  // The constant pattern that gives the first Reshape's data the axes of the last Reshape's; empty
  // if they are not the same axes, joined and apart.
  std::vector<int64_t> Pattern(int index, const std::vector<int>& layer) const {
    const ValueExtents& target = extents_.of(graph_.node(index).inputs[1]);
    const ValueExtents& joined = extents_.of({layer.front(), 0});
    const ValueExtents& end = extents_.of({layer.back(), 0});
    const ValueExtents& data = extents_.of(graph_.node(layer.front()).inputs[0]);
    if (!target.elements.has_value() || !joined.shape.has_value() || !end.shape.has_value() ||
        joined.shape->size() != 2 || end.shape->size() != 2 || target.elements->size() < 3 ||
        target.elements->back() != end.shape->back() ||
        !std::all_of(target.elements->begin(), target.elements->end(),
                     [](const Extent& extent) { return extent.is_extent(); })) {
      return {};
    }
    std::vector<Extent> apart(target.elements->begin(), target.elements->end() - 1);
    if (Product(apart) != joined.shape->front() || end.shape->front() != joined.shape->front()) {
      return {};
    }
    apart.push_back(joined.shape->back());
    return ReshapePattern(data, std::move(apart), /*special_zero=*/false)
        .value_or(std::vector<int64_t>());
  }

  // Appends the layer on the axes apart; its last node, which stands for the last Reshape.
  int Split(int index, const std::vector<int>& layer, Graph& split) const {
    const std::vector<int64_t> pattern = Pattern(index, layer);
    Node list;
    list.op = "Constant";
    list.name = graph_.node(index).name;
    list.constant = Tensor::Of<int64_t>({static_cast<int64_t>(pattern.size())}, pattern);
    list.outputs.resize(1);
    split.nodes.push_back(std::move(list));
    for (const int node : layer) {
      Node copy = graph_.node(node);
      const int data = node == layer.front() ? 0 : DataInput(node);
      Move(copy);
      const int before = static_cast<int>(split.nodes.size()) - 1;
      if (node == layer.front()) {
        copy.inputs[1] = {before, 0};
        copy.attributes.Set("special_zero", true);
      } else {
        copy.inputs[static_cast<size_t>(data)] = {before, 0};
      }
      copy.outputs[0].shape = PartialShape();
      copy.outputs[0].names.clear();
      split.nodes.push_back(std::move(copy));
    }
    split.nodes.back().outputs[0] = graph_.node(index).outputs[0];
    return static_cast<int>(split.nodes.size()) - 1;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  std::vector<int> moved_;
  bool changed_ = false;
};

}  // namespace

bool SplitJoinedAxes(Graph& graph, const GraphInfo& info, const Extents& extents) {
  Graph split;
  split.name = graph.name;
  if (!Splitter(graph, info, extents).Run(split)) {
    return false;
  }
  std::vector<ValueId> results;
  for (const int result : split.results) {
    results.push_back({result, 0});
  }
  std::vector<bool> keep = AncestorsOf(split, results);
  for (const int parameter : split.parameters) {
    keep[static_cast<size_t>(parameter)] = true;
  }
  graph = KeepNodes(split, keep);
  return true;
}

}  // namespace beamwright::ops
