// What a node of a graph costs when it runs, from the extents that inference knows: multiply-adds
// of products and convolutions, and bytes of what is read and written. For people who ask where a
// step's time goes (`beamwright-graph show`); nothing else depends on it.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_NODE_COST_H_
#define BEAMWRIGHT_TOOLS_GRAPH_NODE_COST_H_

#include <cstdint>
#include <string>

#include "ops/graph/inference.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_NODE_COST_H_
