// What `beamwright-graph show` prints: a graph for a person to read, or as JSON for a program.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_SHOW_H_
#define BEAMWRIGHT_TOOLS_GRAPH_SHOW_H_

#include <functional>
#include <string>
#include <vector>

#include "ops/graph/graph.h"
#include "ops/graph/operator.h"
#include "tools/graph/node_cost.h"

namespace beamwright::ops {

struct ShowOptions {
  // What else is known of a node, printed behind it (text) or as its "note" (JSON); empty: nothing.
  // The graph is the one shown or a loop's body inside it. Null: no notes.
  std::function<std::string(const Graph& graph, int node)> note;
  // What a node costs, printed behind the note (text) or as its "cost" (JSON). Null: not printed.
  std::function<NodeCost(const Graph& graph, int node)> cost;
  // Remarks on the whole graph, for example why its shapes are only the declared ones.
  std::vector<std::string> remarks;
};

// Number and size of a graph's constants, loop bodies included. Constants that share memory count
// once.
struct ConstantTotals {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};
ConstantTotals CountConstants(const Graph& graph);

// Every node, loop bodies included, whose operator `operators` lacks, described for people.
std::vector<std::string> UnsupportedNodes(const Graph& graph, const OperatorSet& operators);

std::string ShowText(const Graph& graph, const ShowOptions& options);
std::string ShowJson(const Graph& graph, const ShowOptions& options);
// Graphviz text.
std::string ShowDot(const Graph& graph, const ShowOptions& options);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_SHOW_H_
