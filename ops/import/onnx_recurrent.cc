// ONNX's operators with states: LSTM, GRU and RNN, and attention whose keys and values are summed
// into a matrix.
//
// 1. LSTM, GRU and RNN: ReadAttributes reads the options, and AppendRecurrentSequence makes a loop
//    around a cell for each direction (recurrent_sequence.cc). DynamicQuantizeLstm first checks
//    that scales and zero points agree in their form, and lists all faults in one message.
// 2. CausalConvWithState: the last positions of the call before are joined in front of x, a
//    convolution of one group a channel runs over both, and the last positions of that are the next
//    state.
// 3. LinearAttention: a Loop along time whose state is the matrix S of each head. A step is S' =
//    decay * S + k (v - ...)^T and reads q S' (LinearStep::Next).
//
// Inputs in f16 or bf16 are computed in f32; outputs get the type of their inputs again.

#include <cmath>
#include <memory>

#include "absl/strings/str_join.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/recurrent_sequence.h"

namespace beamwright::ops {

// LSTM, GRU and RNN become loops around cells (ops/import/recurrent_sequence.h).

namespace {

using Cell = RecurrentSequence::Cell;
using Direction = RecurrentSequence::Direction;

void ReadAttributes(OnnxNode& n, RecurrentSequence& sequence) {
  const std::string direction = n.String("direction", "forward");
  if (direction == "reverse") {
    sequence.direction = Direction::kReverse;
  } else if (direction == "bidirectional") {
    sequence.direction = Direction::kBidirectional;
  } else if (direction != "forward") {
    n.Fail("attribute 'direction' is ", Quote(direction),
           "; it must be forward, reverse or bidirectional");
  }
  const bool batch_first = n.version() >= 14 && n.Flag("layout", false);
  sequence.layout =
      batch_first ? RecurrentSequence::Layout::kOnnxBatchFirst : RecurrentSequence::Layout::kOnnx;
  sequence.weights = RecurrentSequence::Weights::kOnnx;
  sequence.hidden_size = n.Int("hidden_size", 0);
  sequence.clip = n.Float("clip", 0);
  n.builder().Fail(SetOnnxActivations(n.Strings("activations"), n.Floats("activation_alpha"),
                                      n.Floats("activation_beta"), sequence));
}

void Append(OnnxNode& n, RecurrentSequence& sequence) {
  sequence.x = n.In(0);
  sequence.w = n.In(1);
  sequence.r = n.In(2);
  sequence.b = n.In(3);
  sequence.lengths = n.In(4);
  sequence.h0 = n.In(5);
  sequence.c0 = n.In(6);
  sequence.p = n.In(7);
  ReadAttributes(n, sequence);
  if (!n.ok()) {
    return;
  }
  const absl::StatusOr<RecurrentOutputs> outputs =
      AppendRecurrentSequence(sequence, n.builder().name(), n.builder().graph());
  if (!outputs.ok()) {
    n.builder().Fail(outputs.status());
    return;
  }
  n.builder().InferAppended();
  n.Out(0, outputs->y);
  n.Out(1, outputs->h);
  n.Out(2, outputs->c);
}

void Lstm(OnnxNode& n) {
  RecurrentSequence sequence;
  sequence.cell = Cell::kLstm;
  sequence.input_forget = n.Flag("input_forget", false);
  Append(n, sequence);
}

// Its weights stand transposed, and every scale and zero point is one for each direction, or one
// for each of its columns.
void DynamicQuantizeLstm(OnnxNode& n) {
  constexpr struct {
    int input;
    const char* name;
    int values;  // the input that a zero point belongs to; 0: it is a scale
  } kPlaces[] = {
      {8, "W_scale", 0}, {9, "W_zero_point", 1}, {10, "R_scale", 0}, {11, "R_zero_point", 2}};
  // W is [directions, inputs, 4 * hidden_size].
  const PartialShape& weights = n.info(n.In(1)).shape;
  const bool known = weights.has_rank() && weights.rank() == 3;
  int rank = -1;
  std::vector<std::string> faults;
  for (const auto& [input, name, values] : kPlaces) {
    if (!n.Has(input)) {
      if (values == 0) {
        faults.push_back(absl::StrCat("input '", name, "' is missing"));
      }
      continue;
    }
    const ValueInfo& info = n.info(n.In(input));
    const int own = info.shape.has_rank() ? info.shape.rank() : 0;
    rank = rank < 0 ? own : rank;
    const auto differs = [&](int axis, int of_weights) {
      return known && info.shape.dim(axis) >= 0 && weights.dim(of_weights) >= 0 &&
             info.shape.dim(axis) != weights.dim(of_weights);
    };
    if (own < 1 || own > 2 || own != rank || differs(0, 0) || (own == 2 && differs(1, 2))) {
      faults.push_back(absl::StrCat(
          "input '", name, "' is ", info.shape.ToString(),
          "; scales and zero points must all be [directions] or all [directions, 4 * hidden_size]",
          known ? absl::StrCat(", here [", weights.dim(0), "] or [", weights.dim(0), ", ",
                               weights.dim(2), "]")
                : ""));
      continue;
    }
    if (values == 0) {
      if (std::string fault = FaultOfScale(n, input, name); !fault.empty()) {
        faults.push_back(std::move(fault));
      }
    } else if (info.dtype != n.info(n.In(values)).dtype) {
      faults.push_back(absl::StrCat("input '", name, "' is ", Name(info.dtype),
                                    "; its weights are ", Name(n.info(n.In(values)).dtype)));
    }
  }
  if (!faults.empty()) {
    n.Fail(absl::StrJoin(faults, "; "));
    return;
  }
  RecurrentSequence sequence;
  sequence.cell = Cell::kLstm;
  sequence.input_forget = n.Flag("input_forget", false);
  sequence.quantisation = {n.In(8), n.In(9), n.In(10), n.In(11)};
  Append(n, sequence);
}

void Gru(OnnxNode& n) {
  RecurrentSequence sequence;
  sequence.cell = Cell::kGru;
  sequence.linear_before_reset = n.Flag("linear_before_reset", false);
  Append(n, sequence);
}

void Rnn(OnnxNode& n) {
  RecurrentSequence sequence;
  sequence.cell = Cell::kRnn;
  Append(n, sequence);
}

}  // namespace

std::vector<OnnxOperator> OnnxMicrosoftRecurrent() {
  return {
      {"DynamicQuantizeLSTM",
       {1},
       3,
       12,
       3,
       "DynamicQuantizeLinear, MatMulInteger, Loop, LSTMCell",
       DynamicQuantizeLstm},
  };
}

std::vector<OnnxOperator> OnnxRecurrent() {
  return {
      {"GRU", {7, 14, 22}, 3, 6, 2, "Loop, GRUCell", Gru},
      {"LSTM", {7, 14, 22}, 3, 8, 3, "Loop, LSTMCell", Lstm},
      {"RNN", {7, 14, 22}, 3, 6, 2, "Loop, RNNCell", Rnn},
  };
}

// Operators of opset 27, and of com.microsoft, with a state of fixed size: attention whose keys and
// values are summed into a matrix, and the convolution in front of it.

namespace {

constexpr const char* kConvolutionBecomes = "Concat, GroupConvolution, Add, Swish";
constexpr const char* kAttentionBecomes = "Loop, MatMul, Multiply, Add";

// An extent that must be known at load; 0 after an error.
int64_t KnownExtent(OnnxNode& n, ValueId x, int axis, const char* name) {
  const int rank = n.Rank(x);
  const int64_t extent = axis < rank ? n.info(x).shape.dim(axis) : -1;
  if (n.ok() && extent < 1) {
    n.Fail("'", name, "' is ", n.info(x).shape.ToString(), "; the extent of axis ", axis,
           " must be known and at least 1");
  }
  return n.ok() ? extent : 0;
}

// Zeros of a shape whose first extent is that of x.
ValueId ZerosBeside(OnnxNode& n, ValueId x, const std::vector<int64_t>& others, ValueId zero) {
  const ValueId batch = Reshaped(n, ExtentOf(n, x, 0), {1});
  const ValueId shape = n.Add("Concat", {batch, n.List(others)}, {{"axis", int64_t{0}}});
  return n.Add("Broadcast", {zero, shape});
}

// x [batch, channels, length], weights [channels, 1, width], the last width - 1 positions before x.
void CausalConvWithState(OnnxNode& n) {
  if (n.HasAttribute("ndim") && n.Int("ndim", 1) != 1) {
    n.Unsupported("attribute 'ndim' must be 1");  // of com.microsoft's form
  }
  const ValueId x = n.In(0);
  const std::string activation = n.String("activation", "none");
  const int64_t width = KnownExtent(n, n.In(1), 2, "weight");
  const int64_t channels = KnownExtent(n, n.In(1), 0, "weight");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    n.Fail("attribute 'activation' is ", Quote(activation), "; it must be none, silu or swish");
  }
  if (!n.ok()) {
    return;
  }
  const ValueId past = n.Has(3) ? n.In(3) : ZerosBeside(n, x, {channels, width - 1}, n.Like(0, x));
  const ValueId positions = n.Add("Concat", {past, x}, {{"axis", int64_t{2}}});
  const std::vector<int64_t> one = {1};
  const std::vector<int64_t> zero = {0};
  ValueId y = n.Add("GroupConvolution", {positions, Reshaped(n, n.In(1), {channels, 1, 1, width})},
                    {{"strides", one},
                     {"dilations", one},
                     {"pads_begin", zero},
                     {"pads_end", zero},
                     {"auto_pad", "explicit"}});
  if (n.Has(2)) {
    y = n.Add("Add", {y, Reshaped(n, n.In(2), {1, -1, 1})});
  }
  n.Out(0, activation == "none" ? y : n.Add("Swish", {y}));
  const ValueId end = ExtentOf(n, positions, 2);
  const ValueId start = n.Add("Subtract", {end, n.Scalar(width - 1)});
  n.Out(1, n.Add("Slice", {positions, Reshaped(n, start, {1}), Reshaped(n, end, {1}), n.List(one),
                           n.List({2})}));
}

// B: batch, T: time, H: heads of keys and values, G: heads of queries for each of them.
struct LinearHeads {
  int64_t num_heads = 0;  // H
  int64_t group = 0;      // G
  int64_t key_width = 0;  // of a head
  int64_t value_width = 0;
};

LinearHeads ReadHeads(OnnxNode& n) {
  LinearHeads heads;
  const int64_t num_queries = n.Int("q_num_heads", 0);
  heads.num_heads = n.Int("kv_num_heads", 0);
  if (n.ok() && (heads.num_heads < 1 || num_queries < 1 || num_queries % heads.num_heads != 0)) {
    n.Fail("attribute 'q_num_heads' is ", num_queries, " and 'kv_num_heads' ", heads.num_heads,
           "; the first must be a multiple of the second, which must be at least 1");
    return heads;
  }
  const int64_t query = KnownExtent(n, n.In(0), 2, "query");
  const int64_t key = KnownExtent(n, n.In(1), 2, "key");
  const int64_t value = KnownExtent(n, n.In(2), 2, "value");
  if (n.ok() && (key % heads.num_heads != 0 || value % heads.num_heads != 0 ||
                 query * heads.num_heads != key * num_queries)) {
    n.Fail("queries, keys and values are ", query, ", ", key, " and ", value,
           " wide, which are not ", num_queries, ", ", heads.num_heads, " and ", heads.num_heads,
           " heads of equal keys");
    return heads;
  }
  if (n.ok()) {
    heads.group = num_queries / heads.num_heads;
    heads.key_width = key / heads.num_heads;
    heads.value_width = value / heads.num_heads;
  }
  return heads;
}

// The body of the loop over time, in f32. Parameters that `parts` does not have are absent.
class LinearStep {
 public:
  LinearStep(OnnxBuilder& body, double scale) : body_(body), scale_(scale) {}

  struct Parts {
    ValueId state;  // [B, H, keys, values]
    ValueId query;  // [B, H, G, keys]
    ValueId key;    // [B, H, keys, 1]
    ValueId value;  // [B, H, 1, values]
    ValueId decay;  // [B, H, keys or 1, 1]: factors
    ValueId rate;   // [B, H or 1, 1, 1]
  };

  // The next state; `read` becomes what the queries read from it, [B, H, G, values].
  ValueId Next(const Parts& parts, ValueId& read) {
    const ValueId kept =
        parts.decay.present() ? body_.Add("Multiply", {parts.state, parts.decay}) : parts.state;
    ValueId added = parts.value;
    if (parts.rate.present()) {
      const ValueId known = Product(parts.key, kept, true);
      added = body_.Add("Multiply", {body_.Add("Subtract", {added, known}), parts.rate});
    }
    const ValueId next = body_.Add("Add", {kept, body_.Add("Multiply", {parts.key, added})});
    const ValueId scale = body_.Constant(Tensor::Scalar(static_cast<float>(scale_)));
    read = body_.Add("Multiply", {Product(parts.query, next, false), scale});
    return next;
  }

 private:
  ValueId Product(ValueId a, ValueId b, bool transposed) {
    return body_.Add("MatMul", {a, b}, {{"transpose_a", transposed}, {"transpose_b", false}});
  }

  OnnxBuilder& body_;
  double scale_;
};

// What has a part for each step [B, T, ...], and how its part of a step enters the body.
struct LinearInputs {
  std::vector<ValueId> values;  // the state first
  Loop loop;
};

// A Parameter of the body, fed by `value`: the state, or the part of one step.
ValueId Enter(OnnxNode& n, OnnxBuilder& body, LinearInputs& inputs, const char* name,
              ValueId value) {
  const bool is_state = inputs.values.empty();
  LoopInput rule;
  rule.kind = is_state ? LoopInput::Kind::kCarried : LoopInput::Kind::kSliced;
  rule.input = static_cast<int>(inputs.values.size());
  rule.external_id = rule.input;
  rule.body_parameter = rule.input;
  rule.back_edge = is_state ? 0 : rule.back_edge;
  rule.axis = is_state ? rule.axis : 1;
  rule.drop_axis = !is_state;
  rule.may_be_empty = !is_state;
  ValueInfo info = n.info(value);
  info.names.clear();
  if (!is_state && info.shape.has_rank()) {
    Shape dims = info.shape.dims();
    dims.erase(dims.begin() + 1);
    info.shape = PartialShape(std::move(dims));
  }
  inputs.loop.inputs.push_back(rule);
  inputs.values.push_back(value);
  return body.Parameter(name, std::move(info));
}

LoopOutput Leaves(int output, LoopOutput::Kind kind) {
  LoopOutput rule;
  rule.output = output;
  rule.body_result = output;
  rule.kind = kind;
  rule.axis = kind == LoopOutput::Kind::kStacked ? 1 : 0;
  return rule;
}

bool ReadRule(OnnxNode& n, bool& is_gated, bool& is_delta) {
  const std::string rule = n.String("update_rule", "gated_delta");
  is_gated = rule == "gated" || rule == "gated_delta";
  is_delta = rule == "delta" || rule == "gated_delta";
  if (!is_gated && !is_delta && rule != "linear") {
    n.Fail("attribute 'update_rule' is ", Quote(rule),
           "; it must be linear, gated, delta or gated_delta");
  } else if (is_gated && !n.Has(4)) {
    n.Fail("input 'decay' is missing, which update_rule ", rule, " reads");
  } else if (is_delta && !n.Has(5)) {
    n.Fail("input 'beta' is missing, which update_rule ", rule, " reads");
  }
  return n.ok();
}

// Decay [B, T, H * keys] or [B, T, H], in logarithms, as factors [B, T, H, keys or 1, 1].
ValueId DecayFactors(OnnxNode& n, const LinearHeads& heads) {
  const ValueId factors = n.Add("Exp", {ConvertTo(n, n.In(4), DType::kF32)});
  const int64_t width = KnownExtent(n, n.In(4), 2, "decay");
  if (n.ok() && width != heads.num_heads && width != heads.num_heads * heads.key_width) {
    n.Fail("'decay' is ", width, " wide; it must be one number a head, ", heads.num_heads,
           ", or one for each number of a key, ", heads.num_heads * heads.key_width);
  }
  return Reshaped(n, factors, {0, 0, heads.num_heads, -1, 1});
}

// The translation in order: the shape of heads, the update rule, then the loop's inputs, of which
// the state comes first and the others are cut along time; the body; and the loop's two outputs,
// the last state and the queries' results stacked along time.
void LinearAttention(OnnxNode& n) {
  n.Ignore("chunk_size");  // another order of the same sums
  const LinearHeads heads = ReadHeads(n);
  double scale = n.Float("scale", 0);
  bool is_gated = false;
  bool is_delta = false;
  if (!ReadRule(n, is_gated, is_delta)) {
    return;
  }
  scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(heads.key_width)) : scale;
  const DType type = n.Type(n.In(0));
  const DType state_type = n.Has(3) ? n.Type(n.In(3)) : type;
  const auto shaped = [&](int input, std::vector<int64_t> pattern) {
    return Reshaped(n, ConvertTo(n, n.In(input), DType::kF32), std::move(pattern));
  };
  const ValueId first =
      n.Has(3) ? ConvertTo(n, n.In(3), DType::kF32)
               : ZerosBeside(n, n.In(0), {heads.num_heads, heads.key_width, heads.value_width},
                             n.Constant(Tensor::Scalar(0.0f)));
  OnnxBuilder body(&n.builder());
  body.set_name(n.builder().name());
  body.set_file_operator(n.builder().file_operator());
  LinearInputs inputs;
  LinearStep::Parts parts;
  parts.state = Enter(n, body, inputs, "state", first);
  parts.query = Enter(n, body, inputs, "query",
                      shaped(0, {0, 0, heads.num_heads, heads.group, heads.key_width}));
  parts.key = Enter(n, body, inputs, "key", shaped(1, {0, 0, heads.num_heads, heads.key_width, 1}));
  parts.value =
      Enter(n, body, inputs, "value", shaped(2, {0, 0, heads.num_heads, 1, heads.value_width}));
  if (is_gated) {
    parts.decay = Enter(n, body, inputs, "decay", DecayFactors(n, heads));
  }
  if (is_delta) {
    parts.rate = Enter(n, body, inputs, "beta", shaped(5, {0, 0, -1, 1, 1}));
  }
  ValueId read;
  const ValueId next = LinearStep(body, scale).Next(parts, read);
  body.Result("state", next);
  body.Result("output", read);
  if (!n.ok() || !body.ok()) {
    n.builder().Fail(body.status());
    return;
  }
  Node node;
  node.op = "Loop";
  node.inputs = inputs.values;
  node.outputs.resize(2);
  inputs.loop.outputs = {Leaves(0, LoopOutput::Kind::kLastValue),
                         Leaves(1, LoopOutput::Kind::kStacked)};
  inputs.loop.body = body.Take();
  node.loop = std::make_shared<const Loop>(std::move(inputs.loop));
  const ValueId loop = n.builder().Add(std::move(node));
  const ValueId output = {loop.node, loop.present() ? 1 : 0};
  n.Out(0, ConvertTo(n, Reshaped(n, output, {0, 0, -1}), type));
  n.Out(1, ConvertTo(n, loop, state_type));
}

}  // namespace

std::vector<OnnxOperator> OnnxLinearStates() {
  return {
      {"CausalConvWithState", {27}, 2, 4, 2, kConvolutionBecomes, CausalConvWithState},
      {"LinearAttention", {27}, 3, 6, 2, kAttentionBecomes, LinearAttention},
  };
}

std::vector<OnnxOperator> OnnxMicrosoftLinearStates() {
  return {
      {"CausalConvWithState", {1}, 2, 4, 2, kConvolutionBecomes, CausalConvWithState},
      {"LinearAttention", {1}, 3, 6, 2, kAttentionBecomes, LinearAttention},
  };
}

}  // namespace beamwright::ops
