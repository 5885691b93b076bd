// Estimates what a node costs in a run: multiply-adds, bytes of weights and bytes of activations
// (CostOf), for listings of a graph.
//
// Extents that are unknown count as 1, and the cost is marked as open: it is then for one row, or
// one position. Sums and products saturate (Plus, Times), since shapes of a hostile file may be
// huge. What inference knows already costs nothing.
#include "tools/graph/node_cost.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kMostCost = int64_t{1} << 62;

int64_t Times(int64_t a, int64_t b) { return a != 0 && b > kMostCost / a ? kMostCost : a * b; }
int64_t Plus(int64_t a, int64_t b) { return a > kMostCost - b ? kMostCost : a + b; }

// Elements of a shape whose unknown extents are 1.
int64_t Elements(const PartialShape& shape, bool& open) {
  open = open || !shape.has_rank();
  int64_t elements = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    open = open || shape.dim(axis) < 0;
    elements = Times(elements, std::max<int64_t>(shape.dim(axis), shape.dim(axis) < 0 ? 1 : 0));
  }
  return elements;
}

int64_t Extent(const PartialShape& shape, int axis) {
  return shape.has_rank() && axis >= 0 && axis < shape.rank()
             ? std::max<int64_t>(shape.dim(axis), 1)
             : 1;
}

bool Flag(const Node& node, const char* name) {
  return node.attributes.Bool(name, false).value_or(false);
}

// A cell multiplies X with W and H with R: each weight meets every row once.
int64_t CellMultiplyAdds(const Node& node, absl::Span<const InputInfo> inputs, int64_t rows) {
  const size_t first = node.op == "LSTMCell" ? 3 : 2;
  const bool joined = node.op == "LSTMCell" && Flag(node, "weights_joined");
  int64_t weights = 0;
  bool open = false;
  for (size_t i = first; i < std::min(inputs.size(), first + (joined ? 1 : 2)); ++i) {
    weights = Plus(weights, inputs[i].shape.has_rank() ? Elements(inputs[i].shape, open) : 0);
  }
  return Times(rows, weights);
}

int64_t MultiplyAdds(const Node& node, absl::Span<const InputInfo> inputs, bool& open) {
  if (node.outputs.empty() || inputs.size() < 2) {
    return 0;
  }
  const PartialShape& out = node.outputs[0].shape;
  if (node.op == "MatMul") {
    const PartialShape& a = inputs[0].shape;
    const int depth = Flag(node, "transpose_a") && a.rank() > 1 ? a.rank() - 2 : a.rank() - 1;
    open = open || !a.has_rank() || (a.rank() > 0 && a.dim(depth) < 0);
    return Times(Elements(out, open), Extent(a, depth));
  }
  if (node.op == "LSTMCell" || node.op == "GRUCell" || node.op == "RNNCell") {
    return CellMultiplyAdds(node, inputs, Extent(out, 0));
  }
  if (node.op == "Convolution" && inputs[1].shape.has_rank()) {
    // A filter [channels out, channels in, ...] meets every position of the output.
    return Times(Elements(out, open), Elements(inputs[1].shape, open) / Extent(inputs[1].shape, 0));
  }
  return 0;
}

}  // namespace

NodeCost CostOf(const Graph& graph, const GraphInfo& info, int index) {
  const Node& node = graph.node(index);
  NodeCost cost;
  if (node.op == "Parameter" || node.op == "Constant" || node.op == "Result" ||
      info.IsKnown(index)) {
    return cost;
  }
  const std::vector<InputInfo> inputs = info.InputsOf(graph, node);
  cost.multiply_adds = MultiplyAdds(node, inputs, cost.open);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == DType::kUndefined) {
      continue;
    }
    const bool known = inputs[i].value != nullptr;
    // Of a table that rows are taken from, as many are read as are taken.
    const bool table = i == 0 && (node.op == "Gather" || node.op.starts_with("Embedding"));
    const int64_t bytes =
        table ? 0 : Times(Elements(inputs[i].shape, cost.open), SizeOf(inputs[i].dtype));
    (known ? cost.weight_bytes : cost.activation_bytes) =
        Plus(known ? cost.weight_bytes : cost.activation_bytes, bytes);
  }
  for (const ValueInfo& output : node.outputs) {
    if (output.dtype != DType::kUndefined) {
      cost.activation_bytes = Plus(cost.activation_bytes,
                                   Times(Elements(output.shape, cost.open), SizeOf(output.dtype)));
    }
  }
  return cost;
}

std::string ToText(const NodeCost& cost) {
  std::vector<std::string> parts;
  if (cost.multiply_adds > 0) {
    parts.push_back(absl::StrCat(cost.multiply_adds, " multiply-adds"));
  }
  if (cost.weight_bytes > 0) {
    parts.push_back(absl::StrCat(cost.weight_bytes, " bytes of weights"));
  }
  if (cost.activation_bytes > 0) {
    parts.push_back(absl::StrCat(cost.activation_bytes, " bytes of activations"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace beamwright::ops
