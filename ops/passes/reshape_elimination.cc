// SplitJoinedAxes: common reshape elimination. Exports wrap layers in Reshapes.
//
//   before: Reshape(Add(MatMul(Reshape(x, [time * batch, width]), W), b), [time, batch, ..])
//   after:  Add(MatMul(x, W), b) on [time, batch, width]
//
// Joined, the axes are neither time steps nor rows; the layer works on any number of axes. The
// joined forms lose their readers.
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// Between the two Reshapes.
constexpr size_t kMostNodes = 8;

class Splitter {
 public:
  Splitter(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), split_(graph) {}

  std::optional<Graph> Run() {
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int index = static_cast<int>(i);
      const std::vector<int> layer = LayerBefore(index);
      if (layer.empty()) {
        split_.Keep(index);
      } else {
        split_.Replace({index, 0}, Split(index, layer));
        any = true;
      }
    }
    return any ? std::optional(DropUnneeded(std::move(split_).Finish())) : std::nullopt;
  }

 private:
  // The nodes from the Reshape that joins axes to the one before `index`, a Reshape that takes them
  // apart again; empty if it is not.
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

  // How many axes of the last Reshape are the joined ones, apart: those behind them are what the
  // layer's last axis becomes, itself or in parts, such as heads. Nothing if that is not known.
  std::optional<size_t> CountApart(int index, const std::vector<int>& layer) const {
    const ValueExtents& apart = extents_.of({index, 0});
    const ValueExtents& joined = extents_.of({layer.front(), 0});
    const ValueExtents& end = extents_.of({layer.back(), 0});
    if (!apart.shape.has_value() || !joined.shape.has_value() || !end.shape.has_value() ||
        joined.shape->size() != 2 || end.shape->size() != 2 ||
        end.shape->front() != joined.shape->front()) {
      return std::nullopt;
    }
    const auto extents = absl::MakeSpan(*apart.shape);
    for (size_t count = 2; count < extents.size(); ++count) {
      const auto tail = extents.subspan(count);
      const bool is_plain =
          tail.size() == 1 || std::all_of(tail.begin(), tail.end(), [](const Extent& extent) {
            return extent.is_number() && extent.number > 0;
          });
      if (is_plain && Product(extents.first(count)) == joined.shape->front() &&
          Product(tail) == end.shape->back()) {
        return count;
      }
    }
    return std::nullopt;
  }

  // The constant pattern that gives the first Reshape's data the axes of the last Reshape's; empty
  // if they are not the same axes, joined and apart.
  std::vector<int64_t> Pattern(int index, const std::vector<int>& layer) const {
    const std::optional<size_t> count = CountApart(index, layer);
    if (!count.has_value()) {
      return {};
    }
    const std::vector<Extent>& shape = *extents_.of({index, 0}).shape;
    std::vector<Extent> apart(shape.begin(), shape.begin() + static_cast<int64_t>(*count));
    apart.push_back(extents_.of({layer.front(), 0}).shape->back());
    return ReshapePattern(extents_.of(graph_.node(layer.front()).inputs[0]), std::move(apart),
                          /*special_zero=*/false)
        .value_or(std::vector<int64_t>());
  }

  // Appends the layer on the axes apart; what stands for the last Reshape.
  ValueId Split(int index, const std::vector<int>& layer) {
    Graph& to = split_.to();
    ValueId before = AppendInts(to, graph_.node(index).name, Pattern(index, layer));
    for (const int node : layer) {
      Node copy = split_.Moved(node);
      if (node == layer.front()) {
        copy.inputs[1] = before;
        copy.attributes.Set("special_zero", true);
      } else {
        copy.inputs[static_cast<size_t>(DataInput(node))] = before;
      }
      copy.outputs[0].shape = PartialShape();
      copy.outputs[0].names.clear();
      before = AppendNode(to, std::move(copy));
    }
    const std::vector<Extent>& target = *extents_.of({index, 0}).shape;
    if (const size_t count = *CountApart(index, layer); count + 1 < target.size()) {
      std::vector<int64_t> parts(count, 0);
      for (size_t i = count; i < target.size(); ++i) {
        parts.push_back(target[i].number);
      }
      before = AppendWithList(to, "Reshape", graph_.node(index).name, before, parts);
      to.node(before.node).attributes.Set("special_zero", true);
    }
    to.node(before.node).outputs[0] = graph_.node(index).outputs[0];
    return before;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  GraphCopy split_;
};

}  // namespace

absl::StatusOr<bool> SplitJoinedAxes(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = Splitter(graph, info, context.shapes->extents).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
