// The names by which people and files address a graph's inputs and outputs.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PORT_NAMES_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PORT_NAMES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// PortName of each of `nodes` (Graph::parameters or Graph::results), made unique: names in a file
// need not be, so the second of a name gets "#2" behind it, the third "#3".
std::vector<std::string> UniquePortNames(const Graph& graph, absl::Span<const int> nodes);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PORT_NAMES_H_
