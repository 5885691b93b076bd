// Follows values through operators that only move them (Reshape, Transpose, Convert and the like)
// and into loops, to find out what a port is for: whether a parameter is looked up in a table
// (LookedUpRows), which operator first computes with it (FirstOperatorOn), which operator last
// computed a result (LastOperatorOf), whether it only starts a loop's state (StartsLoopState).
//
// VisitReaders marks the nodes whose values are the parameter's, in one sweep, since nodes are in
// topological order.
#include "ops/graph/trace.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "absl/strings/string_view.h"

namespace beamwright::ops {
namespace {

bool OnlyMoves(const std::string& op) {
  static constexpr absl::string_view kMoving[] = {"Convert",   "Reshape",   "Squeeze",
                                                  "Unsqueeze", "Transpose", "Broadcast"};
  return std::find(std::begin(kMoving), std::end(kMoving), op) != std::end(kMoving);
}

// Whether a node takes a part of its first input whose place is known, such as a layer's state of
// [layers, rows, width].
bool TakesKnownPart(const Graph& graph, const Node& node) {
  return (node.op == "Gather" || node.op == "Slice" || node.op == "Split") &&
         std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) {
           return !id.present() || graph.node(id.node).op == "Constant";
         });
}

// Calls `visit` for each node that reads one of the marked nodes' values, movement followed, until
// it returns true. One sweep: nodes stand in topological order.
using Visit = std::function<bool(const Graph& graph, const Node& reader, size_t input)>;

bool VisitReaders(const Graph& graph, std::vector<bool> marked, const Visit& visit) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& reader = graph.nodes[i];
    std::vector<bool> in_body(reader.loop == nullptr ? 0 : reader.loop->body.nodes.size());
    bool enters = false;
    for (size_t input = 0; input < reader.inputs.size(); ++input) {
      const ValueId id = reader.inputs[input];
      if (!id.present() || !marked[static_cast<size_t>(id.node)]) {
        continue;
      }
      if (visit(graph, reader, input)) {
        return true;
      }
      marked[i] =
          marked[i] || (input == 0 && (OnlyMoves(reader.op) || TakesKnownPart(graph, reader)));
      for (size_t rule = 0; reader.loop != nullptr && rule < reader.loop->inputs.size(); ++rule) {
        const LoopInput& entry = reader.loop->inputs[rule];
        if (entry.input == static_cast<int>(input)) {
          const auto parameter = static_cast<size_t>(entry.body_parameter);
          in_body[static_cast<size_t>(reader.loop->body.parameters[parameter])] = enters = true;
        }
      }
    }
    if (enters && VisitReaders(reader.loop->body, std::move(in_body), visit)) {
      return true;
    }
  }
  return false;
}

// Whether a Gather is along its first axis.
bool GathersRows(const Graph& graph, const Node& gather) {
  if (gather.inputs.size() < 3) {
    return false;
  }
  const Node& axis = graph.node(gather.inputs[2].node);
  const auto value = axis.constant.has_value() ? Convert(axis.constant, DType::kI64)
                                               : absl::StatusOr<Tensor>(Tensor());
  return value.ok() && value->has_value() && value->num_elements() == 1 &&
         value->data<int64_t>()[0] == 0;
}

void VisitReaders(const Graph& graph, int node, const Visit& visit) {
  std::vector<bool> marked(graph.nodes.size());
  marked[static_cast<size_t>(node)] = true;
  VisitReaders(graph, std::move(marked), visit);
}

}  // namespace

int64_t LookedUpRows(const Graph& graph, int parameter) {
  int64_t rows = -1;
  VisitReaders(graph, parameter, [&](const Graph& where, const Node& reader, size_t input) {
    if (reader.op == "Gather" && input == 1 && GathersRows(where, reader)) {
      const PartialShape& table = where.info(reader.inputs[0]).shape;
      rows = table.has_rank() && table.rank() > 0 ? table.dim(0) : -1;
    }
    return rows >= 0;
  });
  return rows;
}

std::string FirstOperatorOn(const Graph& graph, int parameter) {
  std::string op;
  VisitReaders(graph, parameter, [&](const Graph&, const Node& reader, size_t) {
    const bool computes = !OnlyMoves(reader.op) && reader.loop == nullptr && reader.op != "Result";
    op = computes ? reader.op : "";
    return computes;
  });
  return op;
}

std::string LastOperatorOf(const Graph& graph, int result) {
  const Graph* where = &graph;
  ValueId value = graph.node(result).inputs[0];
  while (value.present()) {
    const Node& node = where->node(value.node);
    if (node.loop != nullptr) {
      const auto& outputs = node.loop->outputs;
      const auto rule = std::find_if(outputs.begin(), outputs.end(), [&](const LoopOutput& output) {
        return output.output == value.output;
      });
      if (rule == outputs.end()) {
        return node.op;
      }
      where = &node.loop->body;
      value = where->node(where->results[static_cast<size_t>(rule->body_result)]).inputs[0];
      continue;
    }
    if (!OnlyMoves(node.op)) {
      return node.op;
    }
    value = node.inputs[0];
  }
  return "";
}

bool StartsLoopState(const Graph& graph, int parameter) {
  bool found = false;
  VisitReaders(graph, parameter, [&](const Graph&, const Node& reader, size_t input) {
    if (reader.loop != nullptr) {
      const auto& rules = reader.loop->inputs;
      found = std::any_of(rules.begin(), rules.end(), [&](const LoopInput& rule) {
        return rule.kind == LoopInput::Kind::kCarried && rule.input == static_cast<int>(input);
      });
    }
    return found;
  });
  return found;
}

int FindLengthAxis(const PartialShape& source) {
  std::vector<int> open;
  for (int axis = 1; axis < source.rank(); ++axis) {
    if (source.dim(axis) == PartialShape::kDynamic) {
      open.push_back(axis);
    }
  }
  if (source.rank() < 2 || (!open.empty() && open[0] == 1)) {
    return 1;
  }
  if (open.size() == 1) {
    return open[0];
  }
  return source.rank() > 3 ? 0 : 1;
}

int64_t CountWeights(const Graph& graph) {
  std::vector<bool> is_read_whole(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int from = node.inputs[i].node;
      if (from >= 0 && !(node.op == "Gather" && i == 0)) {
        is_read_whole[static_cast<size_t>(from)] = true;
      }
    }
  }
  int64_t count = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_read_whole[i] && node.constant.has_value() && node.constant.rank() >= 2) {
      count += node.constant.num_elements();
    }
    if (node.loop != nullptr) {
      count += CountWeights(node.loop->body);
    }
    if (node.branches != nullptr) {
      count += CountWeights(node.branches->then_branch.body) +
               CountWeights(node.branches->else_branch.body);
    }
  }
  return count;
}

}  // namespace beamwright::ops
