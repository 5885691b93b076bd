// JoinScaledProducts: operator fusion of products in 8 bits with a known matrix, as dynamic
// quantisation writes them.
//
//   before: Add(Add(Multiply(Convert(MatMulInteger(x, W)), scale), bias), other)
//   after:  ScaledIntegerProduct(x, W, scale, bias, other)     ops/kernels/quantization.h
//
// Node by node each of these passes over all results; fused, they work on the sums in registers.
// The operations and their order stay.
//
// Below: ScaleBeforeDropping, for products with a vector.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/quantization.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// A product and what was made of it, up to node `last`.
struct ScaledProduct {
  int product = -1;  // MatMulInteger
  int last = -1;
  ValueId a_scale;
  ValueId b_scale;
  ValueId bias;  // may be absent, and so may the addend
  ValueId addend;
};

class ProductJoiner {
 public:
  ProductJoiner(const Graph& graph, const GraphInfo& info)
      : graph_(graph), info_(info), readers_(ReadersByNode(graph)) {}

  std::optional<Graph> Run() const {
    std::vector<std::optional<ScaledProduct>> ends(graph_.nodes.size());  // by their last node
    bool any = false;
    // A sum of two products goes to the later one, whose addend the other is.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (const std::optional<ScaledProduct> found = Find(static_cast<int>(i), ends)) {
        ends[static_cast<size_t>(found->last)] = found;
        any = true;
      }
    }
    if (!any) {
      return std::nullopt;
    }
    GraphCopy joined(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (ends[i].has_value()) {
        joined.Keep(index, Joined(*ends[i], joined));
      } else {
        joined.Keep(index);
      }
    }
    return DropUnneeded(std::move(joined).Finish());
  }

 private:
  const Tensor& Known(ValueId id) const {
    return info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  }

  // The one node that reads node `index`, once, if it is of this operator; -1: it is not.
  int OnlyReader(int index, const char* op) const {
    const std::vector<int>& readers = readers_[static_cast<size_t>(index)];
    const bool is_one = readers.size() == 1 && graph_.node(readers[0]).op == op;
    return is_one && graph_.node(readers[0])
                             .attributes.String("auto_broadcast", "numpy")
                             .value_or("") == "numpy"
               ? readers[0]
               : -1;
  }

  // The other operand of a node of two.
  ValueId OtherInput(int index, int than) const {
    const std::vector<ValueId>& inputs = graph_.node(index).inputs;
    return inputs[inputs[0].node == than ? 1 : 0];
  }

  // Whether a value known at load is one, or one a column.
  bool IsPerColumn(ValueId value, int64_t columns) const {
    const Tensor& known = Known(value);
    return known.has_value() && known.dtype() == DType::kF32 && known.rank() <= 2 &&
           (known.num_elements() == 1 ||
            (known.num_elements() == columns && known.shape().back() == columns));
  }

  // Whether a scale goes with the rows of `a`: taken of it by the same node, or one for all.
  bool IsScaleOf(ValueId scale, ValueId a) const {
    const ValueInfo& info = graph_.info(scale);
    const bool is_one = info.shape.is_static() && NumElements(info.shape.dims()) == 1 &&
                        info.shape.rank() <= graph_.info(a).shape.rank();
    const bool is_taken = scale.node == a.node && graph_.node(a.node).op == "DynamicQuantizeLinear";
    return info.dtype == DType::kF32 && (is_one || is_taken);
  }

  // Splits the scale of all results into that of a and that of b.
  bool FindScales(ValueId scale, ValueId a, int64_t columns, ScaledProduct& found) const {
    const Node& node = graph_.node(scale.node);
    if (node.op != "Multiply") {
      return false;
    }
    for (const size_t of_b : {size_t{1}, size_t{0}}) {
      found.a_scale = node.inputs[1 - of_b];
      found.b_scale = node.inputs[of_b];
      if (IsPerColumn(found.b_scale, columns) && IsScaleOf(found.a_scale, a)) {
        return true;
      }
    }
    return false;
  }

  std::optional<ScaledProduct> Find(int index,
                                    const std::vector<std::optional<ScaledProduct>>& ends) const {
    const Node& node = graph_.node(index);
    if (node.op != "MatMulInteger" || info_.IsKnown(index)) {
      return std::nullopt;
    }
    const ValueId a = node.inputs[0];
    const Tensor& b = Known(node.inputs[1]);
    const ValueId b_zero = node.inputs.size() > 3 ? node.inputs[3] : ValueId();
    const PartialShape& shape = graph_.info(a).shape;
    if (!b.has_value() || b.rank() != 2 || !shape.has_rank() || shape.rank() < 2 ||
        (b_zero.present() && (!Known(b_zero).has_value() || Known(b_zero).rank() > 2))) {
      return std::nullopt;
    }
    const int64_t columns = b.dim(1);
    const int converted = OnlyReader(index, "Convert");
    const int scaled = converted < 0 ? -1 : OnlyReader(converted, "Multiply");
    ScaledProduct found{index, scaled};
    if (scaled < 0 || graph_.node(converted).outputs[0].dtype != DType::kF32 ||
        !FindScales(OtherInput(scaled, converted), a, columns, found)) {
      return std::nullopt;
    }
    const int biased = OnlyReader(found.last, "Add");
    if (biased >= 0 && IsPerColumn(OtherInput(biased, found.last), columns)) {
      found.bias = OtherInput(biased, found.last);
      found.last = biased;
    }
    const int summed = OnlyReader(found.last, "Add");
    if (summed >= 0 && !ends[static_cast<size_t>(summed)].has_value()) {
      found.addend = OtherInput(summed, found.last);
      found.last = summed;
    }
    return found;
  }

  Node Joined(const ScaledProduct& found, const GraphCopy& copy) const {
    const Node& product = graph_.node(found.product);
    Node node;
    node.op = kScaledIntegerProductName;
    node.name = product.name;
    std::vector<ValueId> inputs = product.inputs;
    inputs.resize(4);
    inputs.insert(inputs.end(), {found.a_scale, found.b_scale, found.bias, found.addend});
    while (!inputs.back().present()) {
      inputs.pop_back();
    }
    for (const ValueId input : inputs) {
      node.inputs.push_back(copy.Of(input));
    }
    node.outputs = graph_.node(found.last).outputs;
    return node;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  std::vector<std::vector<int>> readers_;  // by node; of a node that reads it twice, twice
};

}  // namespace

absl::StatusOr<bool> JoinScaledProducts(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = ProductJoiner(graph, info).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

// ScaleBeforeDropping: an integer product with a vector is scaled before it loses its axis, as
// quantize_dynamic writes energies of attention.
//
//   before: MatMulInteger(x [rows, depth], v [depth]) [rows] * scale
//   after:  Squeeze(MatMulInteger(x, v [depth, 1]) [rows, 1] * scale)
//
// One scale for the whole product fits either way; one for each row has an axis for each axis of x.
namespace {

// The node that alone reads what node `index` gives; -1 if missing, or if several do.
int OnlyReader(const Graph& graph, int index) {
  int reader = -1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId& input : graph.nodes[i].inputs) {
      if (input == ValueId{index, 0}) {
        if (reader >= 0) {
          return -1;
        }
        reader = static_cast<int>(i);
      }
    }
  }
  return reader;
}

bool HasRank(const Graph& graph, ValueId value, int rank) {
  const PartialShape& shape = graph.info(value).shape;
  return shape.has_rank() && shape.rank() == rank;
}

// Whether `node` is a product of `value` with one number.
bool Scales(const Graph& graph, const Node& node, ValueId value) {
  return node.op == "Multiply" && node.inputs.size() == 2 &&
         HasRank(graph, node.inputs[node.inputs[0] == value ? 1 : 0], 0);
}

// The nodes from a product with a vector to the last that scales it; empty if `index` is no such
// product.
std::vector<int> ScaledChain(const Graph& graph, int index) {
  const Node& node = graph.node(index);
  if (node.op != "MatMulInteger" || !HasRank(graph, node.inputs[1], 1) ||
      (node.inputs.size() > 3 && node.inputs[3].present() && !HasRank(graph, node.inputs[3], 0)) ||
      !graph.info(node.inputs[0]).shape.has_rank() || graph.info(node.inputs[0]).shape.rank() < 2) {
    return {};
  }
  std::vector<int> chain = {index};
  size_t scaled = 0;
  for (;;) {
    const int reader = OnlyReader(graph, chain.back());
    const bool scales = reader >= 0 && Scales(graph, graph.node(reader), {chain.back(), 0});
    if (reader < 0 || (!scales && graph.node(reader).op != "Convert")) {
      break;
    }
    chain.push_back(reader);
    scaled = scales ? chain.size() : scaled;
  }
  chain.resize(scaled);
  return chain;
}

}  // namespace

absl::StatusOr<bool> ScaleBeforeDropping(Graph& graph, GraphInfo& info,
                                         const PassContext& context) {
  enum class Place { kOutside, kFirst, kInside, kLast };
  std::vector<Place> places(graph.nodes.size(), Place::kOutside);
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<int> chain = ScaledChain(graph, static_cast<int>(i));
    for (const int node : chain) {
      places[static_cast<size_t>(node)] = node == chain.front()  ? Place::kFirst
                                          : node == chain.back() ? Place::kLast
                                                                 : Place::kInside;
    }
    any = any || !chain.empty();
  }
  if (!any) {
    return false;
  }
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    const Place place = places[i];
    Node node = copy.Moved(index);
    if (place == Place::kFirst) {
      node.inputs[1] = AppendWithList(copy.to(), "Unsqueeze", node.name, node.inputs[1], {1});
    }
    const ValueInfo declared = node.outputs.empty() ? ValueInfo() : node.outputs[0];
    if (place != Place::kOutside) {
      node.outputs[0] = {declared.dtype, PartialShape(), {}};
    }
    const ValueId kept = copy.Keep(index, std::move(node));
    if (place == Place::kLast) {
      const ValueId dropped =
          AppendWithList(copy.to(), "Squeeze", copy.to().node(kept.node).name, kept, {-1});
      copy.to().node(dropped.node).outputs[0] = declared;
      copy.Replace({index, 0}, dropped);
    }
  }
  return TakeChanged(std::move(copy).Finish(), graph, info, context);
}

}  // namespace beamwright::ops
