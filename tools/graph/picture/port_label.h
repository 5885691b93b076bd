// What a picture says of a Parameter or Result.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PORT_LABEL_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PORT_LABEL_H_

#include <string>

#include "ops/graph/graph.h"

namespace beamwright::ops {

// Its name, and in a loop's body what it is for: "⟲ h" of a state and of its next value, "x[t]" of
// a slice. `loop`: whose body the graph is, or null.
std::string PortLabel(const Graph& graph, const Loop* loop, int node);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PORT_LABEL_H_
