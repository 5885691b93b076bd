// JoinLayers: operator fusion of what a layer spells out.
//
//   before                                                   after
//   MatMul with a known weight, Add of a known bias, ReLU    BiasedProduct (ops/kernels/matmul.h)
//   MatMul, Multiply by a number, SoftMax, MatMul            Attention (ops/kernels/attention.h)
//   Add, MVN over the last axis, Multiply, Add               AddedNorm (ops/kernels/attention.h)
//
// Intermediate values stay in the core's caches, and a transformer's layer has a third of its
// nodes, each of which costs half a microsecond however few rows it has. For a whole graph or a
// step.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/attention.h"
#include "ops/kernels/matmul.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// An operator in the place of several nodes.
struct Joined {
  int last = -1;  // the node behind which all inputs are there, and before which nothing reads
  Node node;      // inputs are values of the old graph
  // Old values for which the outputs stand, in their order.
  std::vector<ValueId> values;
};

class LayerJoiner {
 public:
  LayerJoiner(const Graph& graph, const GraphInfo& info)
      : graph_(graph), info_(info), readers_(ReadersByNode(graph)) {}

  std::optional<Graph> Run() const {
    std::vector<std::optional<Joined>> ends(graph_.nodes.size());  // by their last node
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      for (auto find :
           {&LayerJoiner::FindProduct, &LayerJoiner::FindNorm, &LayerJoiner::FindAttention}) {
        std::optional<Joined> found = info_.IsKnown(index) ? std::nullopt : (this->*find)(index);
        if (found.has_value()) {
          ends[static_cast<size_t>(found->last)] = std::move(found);
          any = true;
        }
      }
    }
    if (!any) {
      return std::nullopt;
    }
    GraphCopy copy(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (!ends[i].has_value()) {
        copy.Keep(index);
        continue;
      }
      Node node = std::move(ends[i]->node);
      for (ValueId& input : node.inputs) {
        input = input.present() ? copy.Of(input) : input;
      }
      const std::vector<ValueId>& values = ends[i]->values;
      for (const ValueId value : values) {
        node.outputs.push_back(graph_.info(value));
      }
      const ValueId first = copy.Keep(index, std::move(node));
      for (size_t output = 0; output < values.size(); ++output) {
        copy.Replace(values[output], {first.node, static_cast<int>(output)});
      }
    }
    return DropUnneeded(std::move(copy).Finish());
  }

 private:
  const Node& NodeOf(ValueId value) const { return graph_.node(value.node); }
  const PartialShape& ShapeOf(ValueId value) const { return graph_.info(value).shape; }
  bool IsF32(ValueId value) const { return graph_.info(value).dtype == DType::kF32; }
  const Tensor& Known(ValueId value) const {
    return info_.constants[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }
  // Known, f32, and `count` elements along the last axis of what it is combined with.
  bool IsRow(ValueId value, int64_t count) const {
    const Tensor& known = Known(value);
    return known.has_value() && known.dtype() == DType::kF32 && known.rank() >= 1 &&
           known.rank() <= 2 && known.num_elements() == count && known.shape().back() == count;
  }

  // The one node that reads node `index`, once, if it is of this operator; -1: it is not.
  int OnlyReader(int index, const char* op) const {
    const std::vector<int>& readers = readers_[static_cast<size_t>(index)];
    const bool is_one = readers.size() == 1 && graph_.node(readers[0]).op == op;
    return is_one && Broadcasts(graph_.node(readers[0])) ? readers[0] : -1;
  }
  static bool Broadcasts(const Node& node) {
    return node.attributes.String("auto_broadcast", "numpy").value_or("") == "numpy";
  }
  static bool Flag(const Node& node, const char* name) {
    return node.attributes.Bool(name, false).value_or(true);
  }
  // The other operand of a node of two.
  ValueId OtherInput(int index, int than) const {
    const std::vector<ValueId>& inputs = graph_.node(index).inputs;
    return inputs[inputs[0].node == than ? 1 : 0];
  }

  std::optional<Joined> FindProduct(int index) const {
    const Node& product = graph_.node(index);
    if (product.op != "MatMul" || Flag(product, "transpose_a") || !IsF32({index, 0})) {
      return std::nullopt;
    }
    const Tensor& weight = Known(product.inputs[1]);
    const PartialShape& shape = ShapeOf({index, 0});
    if (!weight.has_value() || weight.rank() != 2 || weight.num_elements() == 0 ||
        !shape.has_rank() || shape.rank() < 2) {
      return std::nullopt;
    }
    const int64_t columns = weight.dim(Flag(product, "transpose_b") ? 0 : 1);
    const int biased = OnlyReader(index, "Add");
    if (biased < 0 || !IsRow(OtherInput(biased, index), columns)) {
      return std::nullopt;
    }
    const int rectified = OnlyReader(biased, "ReLU");
    Joined joined;
    joined.last = rectified < 0 ? biased : rectified;
    joined.node.op = kBiasedProductName;
    joined.node.name = product.name;
    joined.node.inputs = {product.inputs[0], product.inputs[1], OtherInput(biased, index)};
    joined.node.attributes.Set("transpose_b", Flag(product, "transpose_b"));
    joined.node.attributes.Set("relu", rectified >= 0);
    joined.values = {{joined.last, 0}};
    return joined;
  }

  // Whether an MVN is that of AddedNorm over the last axis of `width` elements.
  bool NormalizesRows(const Node& node, int64_t& width) const {
    if (node.op != "MVN" || node.inputs.size() != 2) {
      return false;
    }
    const PartialShape& shape = ShapeOf(node.inputs[0]);
    if (!IsF32(node.inputs[0]) || !shape.has_rank() || shape.rank() < 2 ||
        shape.dims().back() < 1 ||
        !node.attributes.Bool("normalize_variance", true).value_or(false) ||
        node.attributes.String("eps_mode", "inside_sqrt").value_or("") != "inside_sqrt") {
      return false;
    }
    const Tensor& known = Known(node.inputs[1]);
    const absl::StatusOr<std::vector<int64_t>> axes =
        known.has_value() ? ToInt64(known) : std::vector<int64_t>();
    width = shape.dims().back();
    return axes.ok() && axes->size() == 1 &&
           (axes->front() == -1 || axes->front() == shape.rank() - 1);
  }

  std::optional<Joined> FindNorm(int index) const {
    const Node& norm = graph_.node(index);
    int64_t width = 0;
    if (!NormalizesRows(norm, width)) {
      return std::nullopt;
    }
    const int scaled = OnlyReader(index, "Multiply");
    const int shifted = scaled < 0 ? -1 : OnlyReader(scaled, "Add");
    if (shifted < 0) {
      return std::nullopt;
    }
    const ValueId scale = OtherInput(scaled, index);
    const ValueId shift = OtherInput(shifted, scaled);
    if (!IsRow(scale, width) || !IsRow(shift, width) || Known(scale).rank() != 1 ||
        Known(shift).rank() != 1) {
      return std::nullopt;
    }
    Joined joined;
    joined.last = shifted;
    joined.node.op = kAddedNormName;
    joined.node.name = norm.name;
    joined.node.inputs = {norm.inputs[0], scale, shift};
    const int sum = norm.inputs[0].node;
    const Node& added = graph_.node(sum);
    if (added.op == "Add" && OnlyReader(sum, "MVN") == index && Broadcasts(added) &&
        !info_.IsKnown(sum) && ShapeOf(added.inputs[0]) == ShapeOf(added.inputs[1])) {
      joined.node.inputs = {added.inputs[0], scale, shift, added.inputs[1]};
    }
    joined.node.attributes.Set("eps", norm.attributes.Float("eps", 0).value_or(0));
    joined.values = {{shifted, 0}};
    return joined;
  }

  // Whether two computed operands are multiplied, matrix by matrix.
  bool IsProductOfMatrices(const Node& node) const {
    return node.op == "MatMul" && !Flag(node, "transpose_a") && IsF32(node.inputs[0]) &&
           ShapeOf(node.inputs[0]).has_rank() && ShapeOf(node.inputs[1]).has_rank() &&
           ShapeOf(node.inputs[0]).rank() >= 3 &&
           ShapeOf(node.inputs[0]).rank() == ShapeOf(node.inputs[1]).rank() &&
           !Known(node.inputs[0]).has_value() && !Known(node.inputs[1]).has_value();
  }

  // A number by which all scores are multiplied; nothing: none is known.
  std::optional<float> NumberOf(ValueId value) const {
    const Tensor& known = Known(value);
    if (!known.has_value() || known.dtype() != DType::kF32 || known.num_elements() != 1) {
      return std::nullopt;
    }
    return known.data<float>()[0];
  }

  std::optional<Joined> FindAttention(int index) const {
    const Node& softmax = graph_.node(index);
    const PartialShape* const shape = softmax.op == "SoftMax" ? &ShapeOf({index, 0}) : nullptr;
    if (shape == nullptr || !shape->has_rank() || shape->rank() < 3) {
      return std::nullopt;
    }
    const int64_t axis = softmax.attributes.Int("axis", 1).value_or(0);
    int scores = softmax.inputs[0].node;
    float scale = 1;
    if (graph_.node(scores).op == "Multiply" && Broadcasts(graph_.node(scores)) &&
        OnlyReader(scores, "SoftMax") == index) {
      const std::vector<ValueId>& inputs = graph_.node(scores).inputs;
      const size_t number = Known(inputs[1]).has_value() ? 1 : 0;
      const std::optional<float> known = NumberOf(inputs[number]);
      const int product = inputs[1 - number].node;
      // A number of more axes than the product would add axes to it.
      if (!known.has_value() || ShapeOf(inputs[1 - number]).rank() != shape->rank()) {
        return std::nullopt;
      }
      scale = *known;
      if (OnlyReader(product, "Multiply") != scores) {
        return std::nullopt;
      }
      scores = product;
    } else if (OnlyReader(scores, "SoftMax") != index) {
      return std::nullopt;
    }
    if ((axis != -1 && axis != shape->rank() - 1) || !IsProductOfMatrices(graph_.node(scores))) {
      return std::nullopt;
    }
    return JoinAttention(index, scores, scale);
  }

  std::optional<Joined> JoinAttention(int softmax, int scores, float scale) const {
    const std::vector<int>& readers = readers_[static_cast<size_t>(softmax)];
    const auto found = std::find_if(readers.begin(), readers.end(), [&](int reader) {
      const Node& node = graph_.node(reader);
      return IsProductOfMatrices(node) && !Flag(node, "transpose_b") &&
             node.inputs[0] == ValueId{softmax, 0} && node.inputs[1].node != softmax;
    });
    // Others may read the shares, as alignments, but not before.
    if (found == readers.end() || *found != *std::min_element(readers.begin(), readers.end())) {
      return std::nullopt;
    }
    const Node& product = graph_.node(scores);
    Joined joined;
    joined.last = *found;
    joined.node.op = kAttentionName;
    joined.node.name = product.name;
    joined.node.inputs = {product.inputs[0], product.inputs[1], graph_.node(*found).inputs[1]};
    joined.node.attributes.Set("transpose_b", Flag(product, "transpose_b"));
    joined.node.attributes.Set("scale", double{scale});
    joined.values = {{*found, 0}};
    if (readers.size() > 1) {
      joined.values.push_back({softmax, 0});
    }
    return joined;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const std::vector<std::vector<int>> readers_;  // by node; of a node that reads it twice, twice
};

}  // namespace

absl::StatusOr<bool> JoinLayers(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = LayerJoiner(graph, info).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
