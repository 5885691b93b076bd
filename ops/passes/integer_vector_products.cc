// ScaleBeforeDropping: an integer product with a vector is scaled before it loses its axis, as
// quantize_dynamic writes energies of attention.
//
//   before: MatMulInteger(x [rows, depth], v [depth]) [rows] * scale
//   after:  Squeeze(MatMulInteger(x, v [depth, 1]) [rows, 1] * scale)
//
// One scale for the whole product fits either way; one for each row has an axis for each axis of x.
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
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
