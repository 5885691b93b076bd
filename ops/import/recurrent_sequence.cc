// LSTM, GRU and RNN over a sequence, as OpenVINO and ONNX write them, become one Loop for each
// direction, whose body is one cell:
//
//   X[T, B, I], H0, C0, W, R, B -> Y, H, C          Loop(slice t of X; h, c carried; weights
//                                                        invariant: LSTMCell) -> stacked y, h, c
//
// AddLoop makes the loop of a direction, AddBody its body. Layouts differ in their axes (AxesOf),
// ONNX's gates are brought into the order of the cells (Gates, Bias, Peepholes), and states that
// are not given begin at zero (InitialState). Quantised weights (AddQuantisedBody) multiply as
// integers, the product of X before the loop. Lengths make it a loop that holds its items.
//
// Layouts of x and y (T time, B batch, D directions, H hidden), and of the states:
//
//   kOnnx             x [T, B, I]   y [T, D, B, H]   states [D, B, H]
//   kOnnxBatchFirst   x [B, T, I]   y [B, T, D, H]   states [B, D, H]
//   kOpenVino         x [B, T, I]   y [B, D, T, H]   states [B, D, H]
//
// ONNX's gates are in the order i o f c of an LSTM, so that {2, 0, 3, 1} of them is f i c o; z r h
// of a GRU is the same.
#include "ops/import/recurrent_sequence.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/types/span.h"
#include "ops/base/status.h"
#include "ops/graph/rewrite.h"

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

// A matrix of 8-bit integers [depth, columns], what 1 stands for, and its zero (absent: 0): one
// each or one a column.
struct QuantisedWeight {
  ValueId values;
  ValueId scale;
  ValueId zero;
};

class SequenceLowering {
 public:
  SequenceLowering(const RecurrentSequence& sequence, int64_t hidden, const std::string& name,
                   Graph& graph)
      : sequence_(sequence),
        hidden_(hidden),
        axes_(AxesOf(sequence.layout)),
        name_(name),
        add_(graph, name) {
    if (sequence.quantisation.has_value()) {
      is_per_column_ = graph.info(sequence.quantisation->w_scale).shape.rank() == 2;
      zero_type_ = DType::kF32;
    } else {
      const DType of_x = graph.info(sequence.x).dtype;
      zero_type_ = of_x != DType::kUndefined ? of_x : graph.info(sequence.r).dtype;
    }
  }

  // One loop for each direction, whose outputs are put together along the axis of directions.
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

  // The state that is given for the direction, or zeros [batch, hidden], the batch taken from x.
  ValueId InitialState(ValueId state, int direction) {
    if (state.present()) {
      return add_.Pick(state, direction, axes_.state_direction);
    }
    const ValueId batch = add_.Add(
        "Gather", {add_.Add("ShapeOf", {sequence_.x}), add_.Ints({axes_.batch}), add_.Int(0)});
    return add_.Add("Broadcast", {Zero(), add_.Concat({batch, add_.Ints({hidden_})}, 0)});
  }

  // A zero of the type that x has; so does R, whose type is known even if that of x is not yet.
  ValueId Zero() {
    if (zero_type_ != DType::kUndefined) {
      return add_.Constant(Tensor::Zeros(zero_type_, {}));
    }
    return add_.Add("ConvertLike", {add_.Constant(Tensor::Scalar(0.0f)), sequence_.x});
  }

  // Blocks of hidden_ rows each (elements, of a vector) in the order given.
  //
  // A matrix [gates * hidden, depth] is looked at as [gates, hidden, depth], whose first axis is
  // picked in the new order.
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

  // ONNX has a bias for the input's product and one for the state's, one behind the other; cells
  // have their sum. Of an LSTM (i o f c i o f c) the bias of f is the sum of blocks 2 and 6.
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
  ValueId AddParameter(NodeAppender& body, const std::string& name, ValueId source,
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

  void AddResult(NodeAppender& body, const std::string& name, ValueId value) {
    const ValueId result = body.Add("Result", {value});
    body.last().name = name;
    body.last().outputs.clear();
    loop_.body.results.push_back(result.node);
  }

  // Columns of the last axis by gate, from the file's order to f i c o. data: [.., gH].
  ValueId GateColumns(ValueId data) {
    const ValueId blocks = add_.Reshape(data, {-1, NumGates(sequence_.cell), hidden_});
    const ValueId picked = add_.Add("Gather", {blocks, add_.Ints({2, 0, 3, 1}), add_.Int(1)});
    return add_.Reshape(picked, {-1, NumGates(sequence_.cell) * hidden_});
  }

  // A scale or zero point of one direction: a number, or a list with one for each column.
  ValueId PerColumn(ValueId list, int direction) {
    if (!list.present()) {
      return list;
    }
    const ValueId one = add_.Pick(list, direction, 0);
    return is_per_column_ ? add_.Reshape(GateColumns(one), {-1}) : one;
  }

  // x, quantised by its range, times a matrix of 8-bit integers [depth, columns], as floats.
  static ValueId QuantisedProduct(NodeAppender& add, ValueId x, const QuantisedWeight& weight) {
    const ValueId q = add.Add("DynamicQuantizeLinear", {x}, {}, 3);
    std::vector<ValueId> inputs = {q, weight.values, {q.node, 2}};
    if (weight.zero.present()) {
      inputs.push_back(weight.zero);
    }
    Attributes to_float;
    to_float.Set("destination_type", std::string("f32"));
    const ValueId sums = add.Add("MatMulInteger", std::move(inputs));
    const ValueId product = add.Add("Convert", {sums}, std::move(to_float));
    const ValueId scale = add.Add("Multiply", {{q.node, 1}, weight.scale});
    return add.Add("Multiply", {product, scale});
  }

  QuantisedWeight Quantised(ValueId values, ValueId scale, ValueId zero, int direction) {
    return {GateColumns(add_.Pick(values, direction, 0)), PerColumn(scale, direction),
            PerColumn(zero, direction)};
  }

  // x [T, B, I] with zeros behind each item's length, which widen no range.
  ValueId WithinLengths() {
    if (!sequence_.lengths.present()) {
      return sequence_.x;
    }
    const auto attribute = [](const char* name, const char* value) {
      Attributes attributes;
      attributes.Set(name, std::string(value));
      return attributes;
    };
    const ValueId time = add_.Pick(add_.Add("ShapeOf", {sequence_.x}), axes_.time, 0);
    const ValueId steps =
        add_.Add("Range", {add_.Int(0), time, add_.Int(1)}, attribute("output_type", "i64"));
    const ValueId lengths =
        add_.Add("Convert", {sequence_.lengths}, attribute("destination_type", "i64"));
    const ValueId is_within =
        add_.Add("Less", {add_.Add("Unsqueeze", {steps, add_.Ints({1, 2})}),
                          add_.Add("Unsqueeze", {lengths, add_.Ints({0, 2})})});
    return add_.Add("Select", {is_within, sequence_.x, add_.Constant(Tensor::Scalar(0.0f))});
  }

  // A body whose cell gets the sums of both products, which are products of integers.
  void AddQuantisedBody(int direction) {
    const RecurrentSequence::Quantisation& is = *sequence_.quantisation;
    const QuantisedWeight w = Quantised(sequence_.w, is.w_scale, is.w_zero, direction);
    const QuantisedWeight r = Quantised(sequence_.r, is.r_scale, is.r_zero, direction);
    NodeAppender body(loop_.body, name_);
    const ValueId x = AddParameter(body, "x", QuantisedProduct(add_, WithinLengths(), w),
                                   LoopInput::Kind::kSliced);
    const ValueId h =
        AddParameter(body, "h", InitialState(sequence_.h0, direction), LoopInput::Kind::kCarried);
    const ValueId c =
        AddParameter(body, "c", InitialState(sequence_.c0, direction), LoopInput::Kind::kCarried);
    const auto invariant = [&](const char* name, ValueId value) {
      return value.present() ? AddParameter(body, name, value, LoopInput::Kind::kInvariant)
                             : ValueId();
    };
    const QuantisedWeight inside{invariant("r", r.values), invariant("r_scale", r.scale),
                                 invariant("r_zero", r.zero)};
    const ValueId gates = body.Add("Add", {x, QuantisedProduct(body, h, inside)});
    std::vector<ValueId> inputs = {gates,
                                   h,
                                   c,
                                   ValueId(),
                                   ValueId(),
                                   invariant("b", Bias(direction)),
                                   invariant("p", Peepholes(direction))};
    while (!inputs.back().present()) {
      inputs.pop_back();
    }
    Attributes attributes = CellAttributes(direction);
    attributes.Set("input_is_gates", true);
    const ValueId cell = body.Add("LSTMCell", std::move(inputs), std::move(attributes), 2);
    AddResult(body, "h_next", cell);
    AddResult(body, "c_next", {cell.node, 1});
  }

  // Outputs of the loop: y [T, B, H] or [B, T, H], h, c.
  //
  // The first input of the body is x, which is sliced, the next one or two are states; AddBody and
  // AddQuantisedBody keep to that. A reversed loop slices from the last step to the first, and its
  // output is put in the order of time again.
  ValueId AddLoop(int direction, bool reversed) {
    loop_ = Loop();
    loop_inputs_.clear();
    if (sequence_.quantisation.has_value()) {
      AddQuantisedBody(direction);
    } else {
      AddBody(direction);
    }
    LoopInput& slice = loop_.inputs[0];
    slice.axis = axes_.time;
    slice.drop_axis = true;
    slice.may_be_empty = true;
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
    NodeAppender body(loop_.body, name_);
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
  bool is_per_column_ = false;           // whether a quantised one has a scale for each column
  DType zero_type_ = DType::kUndefined;  // of states that begin at zero
  Axes axes_;
  const std::string& name_;
  NodeAppender add_;
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

size_t NumActivations(RecurrentSequence::Cell cell) {
  return cell == RecurrentSequence::Cell::kLstm ? 3 : cell == RecurrentSequence::Cell::kGru ? 2 : 1;
}

// ONNX lists alpha and beta without gaps: only activations that have such a number take the next
// entry. The cells want lists by position, which this makes, for each direction.
absl::Status SetOnnxActivations(const std::vector<std::string>& names,
                                const std::vector<double>& alpha, const std::vector<double>& beta,
                                RecurrentSequence& sequence) {
  const size_t directions =
      sequence.direction == RecurrentSequence::Direction::kBidirectional ? 2 : 1;
  const size_t per_direction = NumActivations(sequence.cell);
  const size_t count = per_direction * directions;
  if (names.empty() && alpha.empty() && beta.empty()) {
    return absl::OkStatus();
  }
  if (names.size() != count) {
    return Invalid("activations: has ", names.size(), " entries; the node has ", count,
                   " activations");
  }
  const auto takes = [](const std::string& name, absl::Span<const char* const> takers) {
    return std::any_of(takers.begin(), takers.end(),
                       [&](const char* taker) { return absl::AsciiStrToLower(name) == taker; });
  };
  constexpr const char* kTakeAlpha[] = {"affine",     "leakyrelu",   "thresholdedrelu",
                                        "scaledtanh", "hardsigmoid", "elu"};
  constexpr const char* kTakeBeta[] = {"affine", "scaledtanh", "hardsigmoid"};
  size_t next_alpha = 0;
  size_t next_beta = 0;
  // A list by position ends where the file's list does: later activations take their defaults. What
  // stands at the place of an activation that takes none does not matter.
  const auto place = [](bool taken, const std::vector<double>& list, size_t& next,
                        std::vector<double>& by_position) {
    if (next < list.size()) {
      by_position.push_back(taken ? list[next++] : 0.0);
    }
  };
  sequence.activations.clear();
  for (size_t i = 0; i < count; ++i) {
    if (i % per_direction == 0) {
      sequence.activations.emplace_back();
    }
    RecurrentSequence::Activations& current = sequence.activations.back();
    current.names.push_back(names[i]);
    place(takes(names[i], kTakeAlpha), alpha, next_alpha, current.alpha);
    place(takes(names[i], kTakeBeta), beta, next_beta, current.beta);
  }
  if (next_alpha < alpha.size() || next_beta < beta.size()) {
    return Invalid("activation_alpha and activation_beta: have ", alpha.size(), " and ",
                   beta.size(), " entries; the activations take ", next_alpha, " and ", next_beta);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
