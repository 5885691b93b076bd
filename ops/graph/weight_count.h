// How large a graph's weights are: what decides whether its steps are worth sharing among threads.
#ifndef BEAMWRIGHT_OPS_GRAPH_WEIGHT_COUNT_H_
#define BEAMWRIGHT_OPS_GRAPH_WEIGHT_COUNT_H_

#include <cstdint>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// Elements of constants of rank 2 and more, in loop bodies and branches too. Tables of which a run
// reads single rows (Gather) do not count. Of a graph as it was imported: compiling drops elements.
int64_t CountWeights(const Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_WEIGHT_COUNT_H_
