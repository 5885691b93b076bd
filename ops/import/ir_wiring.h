// Edges between port ids become edges between positions, and layers get an order. Private to
// import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_WIRING_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_WIRING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

// Where a layer's input comes from: index into IrNet::layers, and position among its outputs.
using IrSource = ValueId;

struct IrWiring {
  std::vector<std::vector<IrSource>> sources;  // [layer][input position], all present
  std::vector<int> order;  // topological, by position in the file where that is free
  std::vector<bool> kept;  // reaches a Result or an Assign, or is a Parameter
};

// Errors: an edge that names an unknown layer or port, two edges into one input, an unconnected
// input, a cycle; each naming the layers.
absl::StatusOr<IrWiring> WireNet(const IrNet& net);

// Parameter and Result differ from all other layers by type, without case.
bool IsParameter(const IrLayer& layer);
bool IsResult(const IrLayer& layer);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_WIRING_H_
