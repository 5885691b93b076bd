#include "ops/import/ir_sequence.h"

#include <algorithm>

#include "ops/base/status.h"
#include "ops/import/recurrent_sequence.h"

namespace beamwright::ops {
namespace {

using Cell = RecurrentSequence::Cell;

constexpr const char* kNames[] = {"LSTMSequence", "GRUSequence", "RNNSequence"};

absl::StatusOr<RecurrentSequence::Direction> ReadDirection(const Attributes& attributes) {
  BW_ASSIGN_OR_RETURN(const std::string text, attributes.String("direction", "forward"));
  if (text == "forward") {
    return RecurrentSequence::Direction::kForward;
  }
  if (text == "reverse") {
    return RecurrentSequence::Direction::kReverse;
  }
  if (text == "bidirectional") {
    return RecurrentSequence::Direction::kBidirectional;
  }
  return Invalid("attribute direction: '", text, "' must be forward, reverse or bidirectional");
}

// A bidirectional layer may list what each direction applies. OpenVINO applies the first half to
// both, so only halves that agree have one meaning.
template <typename T>
absl::Status KeepOneDirection(absl::string_view attribute, std::vector<T>& list) {
  const auto middle = list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2);
  if (list.size() % 2 != 0 || !std::equal(list.begin(), middle, middle, list.end())) {
    return Invalid(
        "attribute ", attribute,
        ": the list is for two directions, which must be given the same; export the layer "
        "as one of direction forward and one of direction reverse");
  }
  list.erase(middle, list.end());
  return absl::OkStatus();
}

absl::Status ShareActivations(RecurrentSequence::Cell cell,
                              RecurrentSequence::Activations& activations) {
  if (activations.names.size() != 2 * NumActivations(cell)) {
    return absl::OkStatus();
  }
  BW_RETURN_IF_ERROR(KeepOneDirection("activations", activations.names));
  BW_RETURN_IF_ERROR(KeepOneDirection("activations_alpha", activations.alpha));
  return KeepOneDirection("activations_beta", activations.beta);
}

absl::Status ReadAttributes(const Attributes& attributes, RecurrentSequence& sequence) {
  BW_ASSIGN_OR_RETURN(sequence.direction, ReadDirection(attributes));
  BW_ASSIGN_OR_RETURN(sequence.hidden_size, attributes.Int("hidden_size", 0));
  BW_ASSIGN_OR_RETURN(sequence.clip, attributes.Float("clip", 0));
  BW_ASSIGN_OR_RETURN(sequence.linear_before_reset, attributes.Bool("linear_before_reset", false));
  RecurrentSequence::Activations activations;
  BW_ASSIGN_OR_RETURN(activations.names, attributes.Strings("activations", {}));
  BW_ASSIGN_OR_RETURN(activations.alpha, attributes.Floats("activations_alpha", {}));
  BW_ASSIGN_OR_RETURN(activations.beta, attributes.Floats("activations_beta", {}));
  const bool given =
      !activations.names.empty() || !activations.alpha.empty() || !activations.beta.empty();
  if (given) {
    // One list serves both directions.
    const bool both = sequence.direction == RecurrentSequence::Direction::kBidirectional;
    if (both) {
      BW_RETURN_IF_ERROR(ShareActivations(sequence.cell, activations));
    }
    sequence.activations.assign(both ? 2 : 1, activations);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsSequence(const std::string& op) {
  return std::find(std::begin(kNames), std::end(kNames), op) != std::end(kNames);
}

absl::StatusOr<std::vector<ValueId>> AppendSequence(const Node& node, Graph& graph) {
  RecurrentSequence sequence;
  sequence.cell = static_cast<Cell>(std::find(std::begin(kNames), std::end(kNames), node.op) -
                                    std::begin(kNames));
  BW_RETURN_IF_ERROR(ReadAttributes(node.attributes, sequence));
  const bool is_lstm = sequence.cell == Cell::kLstm;
  const size_t num_inputs = is_lstm ? 7 : 6;
  const bool has_peepholes = is_lstm && node.inputs.size() == num_inputs + 1;
  if (node.inputs.size() != num_inputs && !has_peepholes) {
    return Invalid("has ", node.inputs.size(), " inputs; it takes ", num_inputs,
                   is_lstm ? ", or 8 with peepholes" : "");
  }
  if (node.outputs.size() != (is_lstm ? 3u : 2u)) {
    return Invalid("has ", node.outputs.size(), " outputs; it has ", is_lstm ? 3 : 2);
  }
  size_t next = 0;
  sequence.x = node.inputs[next++];
  sequence.h0 = node.inputs[next++];
  if (is_lstm) {
    sequence.c0 = node.inputs[next++];
  }
  sequence.lengths = node.inputs[next++];
  sequence.w = node.inputs[next++];
  sequence.r = node.inputs[next++];
  sequence.b = node.inputs[next++];
  if (has_peepholes) {
    sequence.p = node.inputs[next];
  }
  BW_ASSIGN_OR_RETURN(const RecurrentOutputs outputs,
                      AppendRecurrentSequence(sequence, node.name, graph));
  std::vector<ValueId> values = {outputs.y, outputs.h};
  if (is_lstm) {
    values.push_back(outputs.c);
  }
  // The file's names and declarations.
  for (size_t i = 0; i < values.size(); ++i) {
    graph.node(values[i].node).outputs[static_cast<size_t>(values[i].output)] = node.outputs[i];
  }
  return values;
}

}  // namespace beamwright::ops
