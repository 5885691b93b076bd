// ScaledDotProductAttention (opset 13), read as the products, sums and SoftMax that its document
// defines it by. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_ATTENTION_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_ATTENTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_ATTENTION_H_
