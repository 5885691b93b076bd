// The vocabulary: which layer types of OpenVINO's opsets are known, what operator each becomes, and
// what kind of value each of its attributes is. Follows from the registry
// (ops/kernels/registry.cc); ir_layers.cc has the exceptions. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_LAYERS_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_LAYERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_LAYERS_H_
