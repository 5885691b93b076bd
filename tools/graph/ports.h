// The inputs or outputs of a graph as lists that guesses are made on. Private to tools/.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PORTS_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PORTS_H_

#include <functional>
#include <string>
#include <vector>

#include "ops/graph/graph.h"

namespace beamwright::ops {

struct Port {
  int node = -1;     // the Parameter or Result
  std::string name;  // PortName
  ValueInfo info;
};
using Ports = std::vector<Port>;

Ports InputPorts(const Graph& graph);
Ports OutputPorts(const Graph& graph);

// "'h' f32[?, 256], 'c' f32[?, 256]", or "none".
std::string Listing(const Ports& ports);

using PortTest = std::function<bool(const Port&)>;
Ports Where(const Ports& ports, const PortTest& test);
// nullptr if no port has that name.
const Port* FindPort(const Ports& ports, const std::string& name);

// Could one value be both? Unknown ranks and extents fit everything.
bool Fits(const ValueInfo& a, const ValueInfo& b);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PORTS_H_
