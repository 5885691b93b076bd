// From a net as the XML says it to a Graph: edges become inputs, layers get an order and are
// translated.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_GRAPH_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_GRAPH_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"
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

// TensorIterator-1 and Loop-5: port map and back edges become the internal loop form.

// If-8: a condition, two bodies and a port map for each.

// `condition`: its value if it is a constant. Rules and errors: docs/graph-files.md, 'Branches'.
// Errors come without the layer's name.
absl::StatusOr<If> TranslateIf(const IrLayer& layer, const Tensor& condition, IrImport& import);

struct IrLoop {
  Loop loop;
  // Number of iterations of a TensorIterator that slices nothing: the caller gives it to the loop
  // as one more input.
  std::optional<int64_t> trip_count;
};

// True for the layer types that iterate a body.
bool IsLoop(const IrLayer& layer);

// `inputs`: what the layer's input ports read. Rules and errors: docs/graph-files.md, 'Loops'.
// Errors come without the layer's name. Slices are resolved against extents later
// (ops/graph/body_maps.h); here only what no extent could mend is refused.
absl::StatusOr<IrLoop> TranslateLoop(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                     IrImport& import);

// The vocabulary: which layer types of OpenVINO's opsets are known, what operator each becomes, and
// what kind of value each of its attributes is. Follows from the registry
// (ops/kernels/registry.cc); ir_layers.cc has the exceptions.

struct AttributeRule {
  const char* name;
  AttributeKind kind;
  const char* fallback = nullptr;  // set where the file gives none
  const char* neutral = nullptr;   // this value (without case) changes nothing: dropped
};

struct LayerType {
  const char* op;  // internal operator; also the file's type, without case, unless an alias says so
  std::vector<AttributeRule> attributes;
  bool composite = false;  // the reader makes several nodes of it; there is no such operator
};

// nullptr if the type is unknown. Matches without case and through aliases ("Const", "Constant").
const LayerType* FindLayerType(absl::string_view type);
// Every operator a file can become, composites left out; for tests.
std::vector<absl::string_view> KnownOperators();

// The attributes of a layer's <data> as its operator reads them. `type` may be nullptr: all become
// strings, as attributes do that the type does not know (validation refuses them by name). Errors
// (without the layer's name) name the attribute.
absl::StatusOr<Attributes> ReadAttributes(const LayerType* type, const IrLayer& layer);

// ScaledDotProductAttention (opset 13), read as the products, sums and SoftMax that its document
// defines it by.

// LSTMSequence (opset 1 and 5), GRUSequence and RNNSequence (opset 5): read here, and lowered to
// loops by ops/import/recurrent_sequence.h.

// True for the operator names of sequences.
bool IsSequence(const std::string& op);

// Appends what the sequence `node` computes, whose inputs are in `graph`; values of its outputs, in
// order. InvalidArgument: a wrong number of inputs or outputs, a bad attribute; Unimplemented: one
// that is known but not supported.
absl::StatusOr<std::vector<ValueId>> AppendSequence(const Node& node, Graph& graph);

// Appends what `node` computes, whose inputs are in `graph`: query [.., queries, width], key
// [.., keys, width], value [.., keys, width of a value], and perhaps a mask (boolean: true for what
// is read; a float: added; a scalar: none) and a scale (absent: 1 / sqrt(width)). InvalidArgument:
// a wrong number of inputs or outputs, a mask without a type; Unimplemented: a sixth input.
absl::StatusOr<ValueId> AppendAttention(const Node& node, Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_GRAPH_H_
