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

// Forgets the elements of large constants, in loop bodies and branches too; types and shapes stay.
// For graphs that have been inferred: what compiling needs is in GraphInfo, and weights need not
// outlive that, as kernels have theirs. Small ones stay, which inferring anew may ask for.
void DropLargeConstants(Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_REWRITE_H_
