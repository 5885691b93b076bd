// KeepComputed: states that grow are kept as what the step computes of them. Reads context.states.
//
//   before: next = Concat(cache, key); scores = query * Transpose(next)     all keys, each step
//   after:  next = Concat(cache, Transpose(key)); scores = query * next     each key once
//
// Parameters and Results of these states then have other shapes and elements. One function of each
// cache goes at a time: call it until nothing changes.
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "ops/compile/extents.h"
#include "ops/compile/graph_copy.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// What is computed of a cache: node `function`, which reads the node that joins the cache with what
// a step adds. order: of a Transpose, where each of its axes comes from; else empty.
struct Computed {
  int parameter = -1;
  int function = -1;
  std::vector<int64_t> order;
};

const Tensor& KnownOf(const GraphInfo& info, ValueId value) {
  return info.constants[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
}

// Whether a node computes each element of its input `of` from that element alone, by a number that
// is known, or moves it along with its row.
bool IsFunction(const Graph& graph, const GraphInfo& info, int index, ValueId of,
                std::vector<int64_t>& order) {
  const Node& node = graph.node(index);
  order.clear();
  if (node.op == "Transpose" && node.inputs.size() == 2 && node.inputs[0] == of) {
    const Tensor& known = KnownOf(info, node.inputs[1]);
    order = known.has_value() ? ToInt64(known).value_or(std::vector<int64_t>())
                              : std::vector<int64_t>();
    return !order.empty() && order[0] == 0;
  }
  if ((node.op != "Multiply" && node.op != "Divide") || node.inputs.size() != 2) {
    return false;
  }
  const size_t port = node.inputs[0] == of ? 0 : 1;
  const Tensor& number = KnownOf(info, node.inputs[1 - port]);
  return node.inputs[port] == of && number.has_value() && number.num_elements() == 1 &&
         (port == 0 || node.op == "Multiply") && number.rank() <= graph.info(of).shape.rank();
}

// What a graph computes of each join of a cache with something, by the node that joins.
std::map<int, Computed> FindComputed(const std::vector<CarriedNodes>& caches, const Graph& graph,
                                     const GraphInfo& info) {
  const std::vector<std::vector<int>> readers = ReadersByNode(graph);
  std::map<int, Computed> found;
  for (const CarriedNodes& cache : caches) {
    const ValueId next = graph.node(cache.result).inputs[0];
    const Node& join = graph.node(next.node);
    const std::vector<int>& of_next = readers[static_cast<size_t>(next.node)];
    const bool joins = join.op == "Concat" && join.inputs.size() == 2 &&
                       absl::c_count(join.inputs, ValueId{cache.parameter, 0}) == 1 &&
                       readers[static_cast<size_t>(cache.parameter)].size() == 1 &&
                       graph.info(next).shape.has_rank() && of_next.size() == 2;
    if (!joins || (of_next[0] != cache.result && of_next[1] != cache.result)) {
      continue;
    }
    Computed computed{cache.parameter, of_next[of_next[0] == cache.result ? 1 : 0], {}};
    if (IsFunction(graph, info, computed.function, next, computed.order)) {
      found[next.node] = std::move(computed);
    }
  }
  return found;
}

// The axis of the result that axis `axis` of the input becomes.
int64_t AxisBehind(const Computed& computed, int64_t axis) {
  const auto at = absl::c_find(computed.order, axis);
  return computed.order.empty() ? axis : at - computed.order.begin();
}

void ChangeParameter(const Computed& computed, Node& node) {
  const Shape dims = node.outputs[0].shape.dims();
  Shape moved = dims;
  for (size_t axis = 0; axis < computed.order.size(); ++axis) {
    moved[axis] = dims[static_cast<size_t>(computed.order[axis])];
  }
  node.outputs[0].shape = PartialShape(std::move(moved));
  const auto shared = node.attributes.Ints(kSharedExtent, {}).value_or(std::vector<int64_t>());
  if (shared.size() == 2) {
    node.attributes.Set(kSharedExtent,
                        std::vector<int64_t>{AxisBehind(computed, shared[0]), shared[1]});
  }
}

}  // namespace

absl::StatusOr<bool> KeepComputed(Graph& graph, GraphInfo& info, const PassContext& context) {
  const std::map<int, Computed> joins = FindComputed(context.states, graph, info);
  if (joins.empty()) {
    return false;
  }
  std::map<int, int> join_of;  // by parameter and by function
  for (const auto& [join, computed] : joins) {
    join_of[computed.parameter] = join;
    join_of[computed.function] = join;
  }
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    const auto join = joins.find(index);
    const auto owner = join_of.find(index);
    Node node = copy.Moved(index);
    if (join != joins.end()) {
      const Computed& computed = join->second;
      for (size_t port = 0; port < 2; ++port) {
        if (graph.node(index).inputs[port] != ValueId{computed.parameter, 0}) {
          Node function = graph.node(computed.function);
          for (ValueId& input : function.inputs) {
            input = input == ValueId{index, 0}
                        ? node.inputs[port]
                        : AppendConstant(copy.to(), function.name, KnownOf(info, input));
          }
          function.outputs[0] = {function.outputs[0].dtype, PartialShape(), {}};
          node.inputs[port] = AppendNode(copy.to(), std::move(function));
        }
      }
      const int rank = graph.info({index, 0}).shape.rank();
      const int64_t axis = node.attributes.Int("axis", 0).value_or(0);
      node.attributes.Set("axis", AxisBehind(computed, axis < 0 ? axis + rank : axis));
      node.outputs[0].shape = PartialShape();
      copy.Keep(index, std::move(node));
    } else if (owner == join_of.end()) {
      copy.Keep(index);
    } else if (node.op == "Parameter") {
      ChangeParameter(joins.at(owner->second), node);
      copy.Keep(index, std::move(node));
    } else {
      copy.Replace({index, 0}, copy.Of({owner->second, 0}));
    }
  }
  return TakeChanged(std::move(copy).Finish(), graph, info, context);
}

}  // namespace beamwright::ops
