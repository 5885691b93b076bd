// What `beamwright-graph show` prints of a graph: for a person to read, or for programs. With what
// its nodes cost.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_SHOW_H_
#define BEAMWRIGHT_TOOLS_GRAPH_SHOW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/graph/graph.h"
#include "ops/graph/inference.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// What a node of a graph costs when it runs, from the extents that inference knows: multiply-adds
// of products and convolutions, and bytes of what is read and written. For people who ask where a
// step's time goes (`beamwright-graph show`); nothing else depends on it.

// Of one run with every extent that is not known taken as 1: of a loop's body, what one row (or one
// position of a source) costs in one iteration.
struct NodeCost {
  int64_t multiply_adds = 0;     // 0 for operators without products
  int64_t weight_bytes = 0;      // of inputs known at load; read once a run, however many rows
  int64_t activation_bytes = 0;  // of other inputs, and of outputs
  bool open = false;             // some extent is not known: the cost grows with it
};

// Sums saturate at 2^62. A node whose types or ranks are not known costs what is known of it.
NodeCost CostOf(const Graph& graph, const GraphInfo& info, int node);

// "262144 multiply-adds, 1048576 bytes of weights, 5120 of activations"; "" if it costs nothing.
std::string ToText(const NodeCost& cost);

// What `beamwright-graph show` prints: a graph for a person to read, or as JSON for a program.

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
