// Turns the edges of a network of OpenVINO's IR into sources of inputs, in an order in which layers
// can be read (WireNet):
//
// 1. ConnectAll: each edge names ports by layer and id. Each input must have exactly one edge.
// 2. Sort: layers by their sources first; of those that are ready the first of the file, so that
//    the order is the same for each run. What is left over is in a cycle, or after one; CycleError
//    finds a layer of it.
// 3. MarkKept: layers that results, parameters and Assigns need. Others are not read, so they may
//    have types that are not supported.
#include "ops/import/ir_wiring.h"

#include <functional>
#include <queue>

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/import/ir_variable.h"

namespace beamwright::ops {
namespace {

std::string DescribeEdge(const IrEdge& edge) {
  return absl::StrCat("edge from layer ", edge.from_layer, " port ", edge.from_port, " to layer ",
                      edge.to_layer, " port ", edge.to_port);
}

absl::StatusOr<size_t> FindLayer(const IrNet& net, const IrEdge& edge, int64_t id) {
  const auto it = net.by_id.find(id);
  if (it == net.by_id.end()) {
    return Invalid(DescribeEdge(edge), ": there is no layer ", id);
  }
  return it->second;
}

absl::Status Connect(const IrNet& net, const IrEdge& edge,
                     std::vector<std::vector<IrSource>>& sources) {
  BW_ASSIGN_OR_RETURN(const size_t from, FindLayer(net, edge, edge.from_layer));
  BW_ASSIGN_OR_RETURN(const size_t to, FindLayer(net, edge, edge.to_layer));
  const int output = net.layers[from].outputs.Find(edge.from_port);
  if (output < 0) {
    return Invalid(DescribeEdge(edge), ": ", Describe(net.layers[from]), " has no output port ",
                   edge.from_port);
  }
  const int input = net.layers[to].inputs.Find(edge.to_port);
  if (input < 0) {
    return Invalid(DescribeEdge(edge), ": ", Describe(net.layers[to]), " has no input port ",
                   edge.to_port);
  }
  IrSource& source = sources[to][static_cast<size_t>(input)];
  if (source.present()) {
    return Invalid(DescribeEdge(edge), ": ", Describe(net.layers[to]), " input port ", edge.to_port,
                   " already has an edge, from ",
                   Describe(net.layers[static_cast<size_t>(source.node)]));
  }
  source = {static_cast<int>(from), output};
  return absl::OkStatus();
}

absl::Status ConnectAll(const IrNet& net, std::vector<std::vector<IrSource>>& sources) {
  for (const IrLayer& layer : net.layers) {
    sources.emplace_back(layer.inputs.size());
  }
  for (const IrEdge& edge : net.edges) {
    BW_RETURN_IF_ERROR(Connect(net, edge, sources));
  }
  for (size_t i = 0; i < net.layers.size(); ++i) {
    for (size_t input = 0; input < sources[i].size(); ++input) {
      if (!sources[i][input].present()) {
        return Invalid(Describe(net.layers[i]), ": input port ", net.layers[i].inputs[input].id,
                       " is not connected");
      }
    }
  }
  return absl::OkStatus();
}

// Every layer left over by the sort has a source that was left over: walking back ends in a cycle.
absl::Status CycleError(const IrNet& net, const IrWiring& wiring, std::vector<int> pending) {
  size_t layer = 0;
  while (pending[layer] == 0) {
    ++layer;
  }
  std::vector<bool> seen(net.layers.size(), false);
  size_t next = layer;
  do {
    layer = next;
    seen[layer] = true;
    for (const IrSource& source : wiring.sources[layer]) {
      if (pending[static_cast<size_t>(source.node)] > 0) {
        next = static_cast<size_t>(source.node);
        break;
      }
    }
  } while (!seen[next]);
  return Invalid(Describe(net.layers[next]), " is part of a cycle: its value depends on itself, ",
                 "the last edge being from ", Describe(net.layers[layer]));
}

absl::Status Sort(const IrNet& net, IrWiring& wiring) {
  std::vector<int> pending(net.layers.size(), 0);  // inputs whose source has no place yet
  std::vector<std::vector<int>> readers(net.layers.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < net.layers.size(); ++i) {
    for (const IrSource& source : wiring.sources[i]) {
      readers[static_cast<size_t>(source.node)].push_back(static_cast<int>(i));
      ++pending[i];
    }
    if (pending[i] == 0) {
      ready.push(static_cast<int>(i));
    }
  }
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    wiring.order.push_back(layer);
    for (const int reader : readers[static_cast<size_t>(layer)]) {
      if (--pending[static_cast<size_t>(reader)] == 0) {
        ready.push(reader);
      }
    }
  }
  return wiring.order.size() == net.layers.size() ? absl::OkStatus()
                                                  : CycleError(net, wiring, std::move(pending));
}

// Backwards through the order, a layer is known to be needed before its sources are met.
void MarkKept(const IrNet& net, IrWiring& wiring) {
  wiring.kept.resize(net.layers.size(), false);
  for (auto it = wiring.order.rbegin(); it != wiring.order.rend(); ++it) {
    const auto layer = static_cast<size_t>(*it);
    if (IsResult(net.layers[layer]) || IsParameter(net.layers[layer]) ||
        IsAssign(net.layers[layer])) {
      wiring.kept[layer] = true;
    }
    if (wiring.kept[layer]) {
      for (const IrSource& source : wiring.sources[layer]) {
        wiring.kept[static_cast<size_t>(source.node)] = true;
      }
    }
  }
}

}  // namespace

bool IsParameter(const IrLayer& layer) { return absl::EqualsIgnoreCase(layer.type, "Parameter"); }
bool IsResult(const IrLayer& layer) { return absl::EqualsIgnoreCase(layer.type, "Result"); }

absl::StatusOr<IrWiring> WireNet(const IrNet& net) {
  IrWiring wiring;
  BW_RETURN_IF_ERROR(ConnectAll(net, wiring.sources));
  BW_RETURN_IF_ERROR(Sort(net, wiring));
  MarkKept(net, wiring);
  return wiring;
}

}  // namespace beamwright::ops
