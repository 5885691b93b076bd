// Two of OpenVINO's composite layers, as basic operators.
//
// AppendSequence: LSTMSequence, GRUSequence and RNNSequence become a RecurrentSequence
// (recurrent_sequence.h), which builds a loop with a cell. A bidirectional layer that lists
// activations for two directions must list the same for both: OpenVINO applies the first half to
// both, and only then does the file have one meaning.
//
// AppendAttention: ScaledDotProductAttention(query, key, value[, mask[, scale]]) becomes
//
//   SoftMax(scale query key^T + mask) value
//
// with the scale 1 / sqrt(width), if none is given; a boolean mask selects, any other mask is
// added; `causal` hides keys after the query's position. A pass later finds this pattern and runs
// it as one kernel, so that graphs of both importers take the same way.
#include "ops/import/ir_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/status.h"
#include "ops/graph/node_appender.h"
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

Attributes With(const char* name, AttributeValue value) {
  Attributes attributes;
  attributes.Set(name, std::move(value));
  return attributes;
}

class AttentionLowering {
 public:
  AttentionLowering(const Node& node, Graph& graph)
      : node_(node), graph_(graph), add_(graph, node.name) {}

  absl::StatusOr<ValueId> Run() {
    const ValueId query = node_.inputs[0];
    const ValueId key = node_.inputs[1];
    BW_ASSIGN_OR_RETURN(const bool is_causal, node_.attributes.Bool("causal", false));
    ValueId scores = add_.Add("MatMul", {query, key}, With("transpose_b", true));
    scores = add_.Add("Multiply", {scores, Scale()});
    if (is_causal) {
      scores = add_.Add("Select", {Earlier(), scores, Like(kLowest)});
    } else if (HasMask()) {
      BW_ASSIGN_OR_RETURN(scores, Masked(scores));
    }
    const ValueId shares = add_.Add("SoftMax", {scores}, With("axis", int64_t{-1}));
    const ValueId read = add_.Add("MatMul", {shares, node_.inputs[2]});
    graph_.node(read.node).outputs = node_.outputs;
    return read;
  }

 private:
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();

  // A scalar of the queries' type.
  ValueId Like(float number) {
    const absl::StatusOr<Tensor> typed =
        Convert(Tensor::Scalar(number), graph_.info(node_.inputs[0]).dtype);
    if (typed.ok()) {
      return add_.Constant(*typed);
    }
    return add_.Add("ConvertLike", {add_.Constant(Tensor::Scalar(number)), node_.inputs[0]});
  }

  // Axis -1 or -2 of an input, an i64 scalar.
  ValueId Extent(ValueId value, int64_t axis) {
    return add_.Pick(add_.Add("ShapeOf", {value}), axis, 0);
  }

  ValueId Scale() {
    if (node_.inputs.size() > 4) {
      return node_.inputs[4];
    }
    const PartialShape& shape = graph_.info(node_.inputs[0]).shape;
    const int64_t declared = shape.has_rank() && shape.rank() > 0 ? shape.dims().back() : -1;
    if (declared > 0) {
      return Like(static_cast<float>(1 / std::sqrt(static_cast<double>(declared))));
    }
    const ValueId width = add_.Add("ConvertLike", {Extent(node_.inputs[0], -1), node_.inputs[0]});
    return add_.Add("Power", {width, Like(-0.5F)});
  }

  // Whether a key stands no later than a query: [queries, keys].
  ValueId Earlier() {
    const auto counting = [&](ValueId count) {
      return add_.Add("Range", {add_.Int(0), count, add_.Int(1)},
                      With("output_type", std::string("i64")));
    };
    const ValueId queries = counting(Extent(node_.inputs[0], -2));
    return add_.Add("LessEqual", {counting(Extent(node_.inputs[1], -2)),
                                  add_.Add("Unsqueeze", {queries, add_.Ints({1})})});
  }

  // Whether the layer has a mask. A scalar in its place means none, if a scale follows.
  bool HasMask() const {
    if (node_.inputs.size() < 4) {
      return false;
    }
    const PartialShape& shape = graph_.info(node_.inputs[3]).shape;
    return !(node_.inputs.size() > 4 && shape.has_rank() && shape.rank() == 0);
  }

  absl::StatusOr<ValueId> Masked(ValueId scores) {
    const DType type = graph_.info(node_.inputs[3]).dtype;
    if (type == DType::kUndefined) {
      return Invalid("attention_mask: its element type is not declared");
    }
    return type == DType::kBool ? add_.Add("Select", {node_.inputs[3], scores, Like(kLowest)})
                                : add_.Add("Add", {scores, node_.inputs[3]});
  }

  const Node& node_;
  Graph& graph_;
  NodeAppender add_;
};

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

absl::StatusOr<ValueId> AppendAttention(const Node& node, Graph& graph) {
  if (node.inputs.size() == 6) {
    return absl::UnimplementedError("a sixth input, 'sink', is not supported");
  }
  if (node.inputs.size() < 3 || node.inputs.size() > 6 || node.outputs.size() != 1) {
    return Invalid("has ", node.inputs.size(), " inputs and ", node.outputs.size(),
                   " outputs; it takes 3 to 5, and has one");
  }
  return AttentionLowering(node, graph).Run();
}

}  // namespace beamwright::ops
