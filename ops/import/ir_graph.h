// From a net as the XML says it to a Graph: edges become inputs, layers get an order and are
// translated. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_GRAPH_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_GRAPH_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/ir_constant.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

// Edges between port ids become edges between positions, and layers get an order.

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

// From a net as the XML says it to a Graph: edges become inputs, layers that reach no Result are
// dropped, the rest is put in topological order and translated.

// What the translation of a file shares between a net and its loop bodies.
struct IrImport {
  static constexpr int64_t kMostUnknownListed = 50;

  IrWeights weights;
  int64_t num_bodies = 0;            // of loops and branches; a sequence of cells becomes one
  int depth = 0;                     // loops around the net that is being read
  std::string where;                 // "layer 6 'loop' (TensorIterator): body: ", or empty
  int64_t num_unknown = 0;           // layers of unknown type
  std::vector<std::string> unknown;  // descriptions of the first of them
  std::vector<absl::Status> faults;  // of layers of the net that were passed over
};

// A net's Graph, and where its Parameter and Result layers went: layer id -> index into
// Graph::parameters or Graph::results.
struct IrGraph {
  Graph graph;
  absl::flat_hash_map<int64_t, int> parameters;
  absl::flat_hash_map<int64_t, int> results;
};

// `xml` is a <net> or <body>. Unknown layers are collected in `import`, and so are faults of the
// layers of a <net>; neither is an error here. With faults the graph is good for telling further
// ones alone (FaultsBesideUnknown, ops/graph/inference.h).
absl::StatusOr<IrGraph> BuildGraph(pugi::xml_node xml, IrImport& import);

// The graph in a child element of a layer, for example "body". Errors name the element;
// InvalidArgument if it is missing, or if bodies are nested too deep.
absl::StatusOr<IrGraph> BuildInnerGraph(const IrLayer& layer, const char* element,
                                        IrImport& import);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_GRAPH_H_
