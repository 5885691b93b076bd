#include "tools/graph/ports.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace beamwright::ops {

Ports InputPorts(const Graph& graph) {
  Ports ports;
  for (const int node : graph.parameters) {
    ports.push_back({node, PortName(graph, node), graph.node(node).outputs[0]});
  }
  return ports;
}

Ports OutputPorts(const Graph& graph) {
  Ports ports;
  for (const int node : graph.results) {
    const ValueId value = graph.node(node).inputs[0];
    const Port* const known = FindPort(ports, PortName(graph, node));
    if (known == nullptr || graph.node(known->node).inputs[0] != value) {
      ports.push_back({node, PortName(graph, node), graph.info(value)});
    }
  }
  return ports;
}

std::string Listing(const Ports& ports) {
  if (ports.empty()) {
    return "none";
  }
  return absl::StrJoin(ports, ", ", [](std::string* out, const Port& port) {
    absl::StrAppend(out, "'", port.name, "' ", Name(port.info.dtype), port.info.shape.ToString());
  });
}

Ports Where(const Ports& ports, const PortTest& test) {
  Ports found;
  std::copy_if(ports.begin(), ports.end(), std::back_inserter(found), test);
  return found;
}

const Port* FindPort(const Ports& ports, const std::string& name) {
  const auto it =
      std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return it == ports.end() ? nullptr : &*it;
}

bool Fits(const ValueInfo& a, const ValueInfo& b) {
  if (a.dtype != b.dtype) {
    return false;
  }
  if (!a.shape.has_rank() || !b.shape.has_rank()) {
    return true;
  }
  if (a.shape.rank() != b.shape.rank()) {
    return false;
  }
  for (int axis = 0; axis < a.shape.rank(); ++axis) {
    const int64_t x = a.shape.dim(axis);
    const int64_t y = b.shape.dim(axis);
    if (x != y && x != PartialShape::kDynamic && y != PartialShape::kDynamic) {
      return false;
    }
  }
  return true;
}

}  // namespace beamwright::ops
