// Small changes to graphs, for passes that make one graph out of another.
#ifndef BEAMWRIGHT_OPS_GRAPH_REWRITE_H_
#define BEAMWRIGHT_OPS_GRAPH_REWRITE_H_

#include <vector>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// The nodes marked in `keep` in their order; Parameters and Results that are not marked leave the
// lists as well. Kept nodes must not read others. `moved`, unless null, becomes the new index of
// each old node, -1 for those left out.
Graph KeepNodes(const Graph& graph, const std::vector<bool>& keep,
                std::vector<int>* moved = nullptr);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_REWRITE_H_
