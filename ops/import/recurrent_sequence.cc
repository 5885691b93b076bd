#include "ops/import/recurrent_sequence.h"

#include <array>
#include <utility>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

using Cell = RecurrentSequence::Cell;
using Direction = RecurrentSequence::Direction;
using Layout = RecurrentSequence::Layout;
using Weights = RecurrentSequence::Weights;

int64_t NumGates(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

struct Axes {
  int64_t batch;            // of x
  int64_t time;             // of x, and of y without the direction axis
  int64_t state_direction;  // of the states
  int64_t y_direction;
};

Axes AxesOf(Layout layout) {
  switch (layout) {
    case Layout::kOnnx:
      return {1, 0, 0, 1};
    case Layout::kOnnxBatchFirst:
      return {0, 1, 1, 2};
    case Layout::kOpenVino:
      break;
  }
  return {0, 1, 1, 1};
}

// Appends nodes whose outputs inference will describe.
class Appender {
 public:
  Appender(Graph& graph, std::string prefix) : graph_(graph), prefix_(std::move(prefix)) {}

  ValueId Add(const std::string& op, std::vector<ValueId> inputs, Attributes attributes = {},
              size_t num_outputs = 1) {
    Node node;
    node.op = op;
    node.name = absl::StrCat(prefix_, "/", op, count_++);
    node.attributes = std::move(attributes);
    node.inputs = std::move(inputs);
    node.outputs.resize(num_outputs);
    graph_.nodes.push_back(std::move(node));
    return {static_cast<int>(graph_.nodes.size()) - 1, 0};
  }

  ValueId Constant(Tensor tensor) {
    const ValueId value = Add("Constant", {});
    Node& node = graph_.nodes.back();
    node.outputs[0].dtype = tensor.dtype();
    node.outputs[0].shape = PartialShape(tensor.shape());
    node.constant = std::move(tensor);
    return value;
  }
  ValueId Int(int64_t value) { return Constant(Tensor::Scalar(value)); }
  ValueId Ints(const std::vector<int64_t>& values) {
    return Constant(Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values));
  }

  // An element of an axis, which is lost.
  ValueId Pick(ValueId data, int64_t index, int64_t axis) {
    return Add("Gather", {data, Int(index), Int(axis)});
  }
  ValueId Reshape(ValueId data, const std::vector<int64_t>& shape) {
    Attributes attributes;
    attributes.Set("special_zero", false);
    return Add("Reshape", {data, Ints(shape)}, std::move(attributes));
  }
  // Values joined along a new axis.
  ValueId Stack(const std::vector<ValueId>& values, int64_t axis) {
    std::vector<ValueId> parts;
    for (const ValueId value : values) {
      parts.push_back(Add("Unsqueeze", {value, Ints({axis})}));
    }
    return parts.size() == 1 ? parts[0] : Concat(parts, axis);
  }
  ValueId Concat(std::vector<ValueId> values, int64_t axis) {
    Attributes attributes;
    attributes.Set("axis", axis);
    return Add("Concat", std::move(values), std::move(attributes));
  }

  Node& last() { return graph_.nodes.back(); }

 private:
  Graph& graph_;
  std::string prefix_;
  int count_ = 0;
};

class SequenceLowering {
 public:
  SequenceLowering(const RecurrentSequence& sequence, int64_t hidden, const std::string& name,
                   Graph& graph)
      : sequence_(sequence),
        hidden_(hidden),
        axes_(AxesOf(sequence.layout)),
        name_(name),
        add_(graph, name) {}

  RecurrentOutputs Run() {
    const int count = sequence_.direction == Direction::kBidirectional ? 2 : 1;
    std::vector<ValueId> y;
    std::vector<ValueId> h;
    std::vector<ValueId> c;
    for (int d = 0; d < count; ++d) {
      const ValueId loop = AddLoop(d, d == 1 || sequence_.direction == Direction::kReverse);
      y.push_back(loop);
      h.push_back({loop.node, 1});
      c.push_back({loop.node, 2});
    }
    RecurrentOutputs outputs;
    outputs.y = add_.Stack(y, axes_.y_direction);
    outputs.h = add_.Stack(h, axes_.state_direction);
    if (is_lstm()) {
      outputs.c = add_.Stack(c, axes_.state_direction);
    }
    return outputs;
  }

 private:
  bool is_lstm() const { return sequence_.cell == Cell::kLstm; }
  bool is_onnx() const { return sequence_.weights == Weights::kOnnx; }

  ValueId InitialState(ValueId state, int direction) {
    if (state.present()) {
      return add_.Pick(state, direction, axes_.state_direction);
    }
    const ValueId batch = add_.Add(
        "Gather", {add_.Add("ShapeOf", {sequence_.x}), add_.Ints({axes_.batch}), add_.Int(0)});
    return add_.Add("Broadcast", {add_.Constant(Tensor::Scalar(0.0f)),
                                  add_.Concat({batch, add_.Ints({hidden_})}, 0)});
  }

  // Blocks of hidden_ rows each (elements, of a vector) in the order given.
  ValueId Blocks(ValueId data, const std::vector<int64_t>& order, bool is_matrix) {
    const ValueId blocks =
        add_.Reshape(data, is_matrix ? std::vector<int64_t>{NumGates(sequence_.cell), hidden_, -1}
                                     : std::vector<int64_t>{-1, hidden_});
    const ValueId picked = add_.Add("Gather", {blocks, add_.Ints(order), add_.Int(0)});
    return add_.Reshape(picked, is_matrix
                                    ? std::vector<int64_t>{NumGates(sequence_.cell) * hidden_, -1}
                                    : std::vector<int64_t>{-1});
  }

  // Gates from the file's order to f i c o and z r h.
  ValueId Gates(ValueId weights, int direction) {
    const ValueId one = add_.Pick(weights, direction, 0);
    return is_onnx() && is_lstm() ? Blocks(one, {2, 0, 3, 1}, true) : one;
  }

  ValueId Bias(int direction) {
    if (!sequence_.b.present()) {
      return ValueId();
    }
    const ValueId one = add_.Pick(sequence_.b, direction, 0);
    if (!is_onnx()) {
      return one;
    }
    const auto sum = [&](const std::vector<int64_t>& input, const std::vector<int64_t>& recurrent) {
      return add_.Add("Add", {Blocks(one, input, false), Blocks(one, recurrent, false)});
    };
    switch (sequence_.cell) {
      case Cell::kLstm:
        return sum({2, 0, 3, 1}, {6, 4, 7, 5});
      case Cell::kGru:
        // With linear_before_reset the candidate's two biases stay apart.
        return sequence_.linear_before_reset
                   ? add_.Concat({sum({0, 1}, {3, 4}), Blocks(one, {2, 5}, false)}, 0)
                   : sum({0, 1, 2}, {3, 4, 5});
      case Cell::kRnn:
        break;
    }
    return sum({0}, {1});
  }

  ValueId Peepholes(int direction) {
    if (!is_lstm() || !sequence_.p.present()) {
      return ValueId();
    }
    const ValueId one = add_.Pick(sequence_.p, direction, 0);
    return is_onnx() ? Blocks(one, {2, 0, 1}, false) : one;
  }

  Attributes CellAttributes(int direction) const {
    Attributes attributes;
    attributes.Set("hidden_size", hidden_);
    if (sequence_.clip != 0) {
      attributes.Set("clip", sequence_.clip);
    }
    if (sequence_.linear_before_reset) {
      attributes.Set("linear_before_reset", true);
    }
    if (sequence_.input_forget) {
      attributes.Set("input_forget", true);
    }
    if (!sequence_.activations.empty()) {
      const auto& given = sequence_.activations[static_cast<size_t>(direction)];
      attributes.Set("activations", given.names);
      attributes.Set("activations_alpha", given.alpha);
      attributes.Set("activations_beta", given.beta);
    }
    return attributes;
  }

  // Adds a body Parameter that `source` feeds, and its rule.
  ValueId AddParameter(Appender& body, const std::string& name, ValueId source,
                       LoopInput::Kind kind) {
    const ValueId value = body.Add("Parameter", {});
    body.last().name = name;
    LoopInput rule;
    rule.kind = kind;
    rule.input = static_cast<int>(loop_inputs_.size());
    rule.external_id = rule.input;
    rule.body_parameter = static_cast<int>(loop_.body.parameters.size());
    loop_.body.parameters.push_back(value.node);
    loop_.inputs.push_back(rule);
    loop_inputs_.push_back(source);
    return value;
  }

  void AddResult(Appender& body, const std::string& name, ValueId value) {
    const ValueId result = body.Add("Result", {value});
    body.last().name = name;
    body.last().outputs.clear();
    loop_.body.results.push_back(result.node);
  }

  // Outputs of the loop: y [T, B, H] or [B, T, H], h, c.
  ValueId AddLoop(int direction, bool reversed) {
    loop_ = Loop();
    loop_inputs_.clear();
    AddBody(direction);
    LoopInput& slice = loop_.inputs[0];
    slice.axis = axes_.time;
    slice.drop_axis = true;
    if (reversed) {
      slice.start = -1;
      slice.end = 0;
      slice.stride = -1;
    }
    LoopOutput y;
    y.kind = LoopOutput::Kind::kStacked;
    y.output = 0;
    y.body_result = 0;
    y.axis = axes_.time;
    y.reversed = reversed;
    loop_.outputs.push_back(y);
    const int num_states = is_lstm() ? 2 : 1;
    for (int state = 0; state < num_states; ++state) {
      loop_.inputs[static_cast<size_t>(1 + state)].back_edge = state;
      LoopOutput last;
      last.output = 1 + state;
      last.body_result = state;
      loop_.outputs.push_back(last);
    }
    if (sequence_.lengths.present()) {
      loop_.items = Loop::Items::kHeld;
      loop_.lengths_input = static_cast<int>(loop_inputs_.size());
      loop_inputs_.push_back(sequence_.lengths);
    }
    const ValueId node = add_.Add("Loop", loop_inputs_, {}, loop_.outputs.size());
    add_.last().loop = std::make_shared<const Loop>(std::move(loop_));
    return node;
  }

  // A body of one cell: x, then the states, then weights.
  void AddBody(int direction) {
    Appender body(loop_.body, name_);
    const ValueId x = AddParameter(body, "x", sequence_.x, LoopInput::Kind::kSliced);
    std::vector<ValueId> inputs = {x};
    inputs.push_back(
        AddParameter(body, "h", InitialState(sequence_.h0, direction), LoopInput::Kind::kCarried));
    if (is_lstm()) {
      inputs.push_back(AddParameter(body, "c", InitialState(sequence_.c0, direction),
                                    LoopInput::Kind::kCarried));
    }
    const std::array<std::pair<const char*, ValueId>, 4> weights = {
        {{"w", Gates(sequence_.w, direction)},
         {"r", Gates(sequence_.r, direction)},
         {"b", Bias(direction)},
         {"p", Peepholes(direction)}}};
    for (const auto& [name, value] : weights) {
      inputs.push_back(value.present()
                           ? AddParameter(body, name, value, LoopInput::Kind::kInvariant)
                           : ValueId());
    }
    while (!inputs.back().present()) {
      inputs.pop_back();
    }
    constexpr const char* kOps[] = {"LSTMCell", "GRUCell", "RNNCell"};
    const ValueId cell = body.Add(kOps[static_cast<size_t>(sequence_.cell)], std::move(inputs),
                                  CellAttributes(direction), is_lstm() ? 2 : 1);
    AddResult(body, "h_next", cell);
    if (is_lstm()) {
      AddResult(body, "c_next", {cell.node, 1});
    }
  }

  const RecurrentSequence& sequence_;
  int64_t hidden_;
  Axes axes_;
  const std::string& name_;
  Appender add_;
  // The loop being made.
  Loop loop_;
  std::vector<ValueId> loop_inputs_;
};

size_t NumDirections(const RecurrentSequence& sequence) {
  return sequence.direction == Direction::kBidirectional ? 2 : 1;
}

}  // namespace

absl::StatusOr<RecurrentOutputs> AppendRecurrentSequence(const RecurrentSequence& sequence,
                                                         const std::string& name, Graph& graph) {
  int64_t hidden = sequence.hidden_size;
  if (hidden == 0) {
    const PartialShape& r = graph.info(sequence.r).shape;
    if (!r.has_rank() || r.rank() != 3 || r.dim(2) < 1) {
      return Invalid("hidden_size is not given, and R has shape ", r.ToString());
    }
    hidden = r.dim(2);
  }
  if (hidden < 1 || hidden > (int64_t{1} << 24)) {
    return Invalid("hidden_size ", hidden, " must be in [1, 2^24]");
  }
  if (!sequence.activations.empty() && sequence.activations.size() != NumDirections(sequence)) {
    return Invalid("activations are given for ", sequence.activations.size(), " directions, not ",
                   NumDirections(sequence));
  }
  return SequenceLowering(sequence, hidden, name, graph).Run();
}

}  // namespace beamwright::ops
