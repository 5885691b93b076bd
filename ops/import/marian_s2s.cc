// Marian's RNN models (type s2s, and nematus under other names of arrays): a bidirectional GRU
// encoder, and a decoder of two GRU cells with attention between them.
//
// With r, z = sigmoid(W x + U h + b) and h' = (1 - z) * n + z * h, a cell's n is
//
//   tanh(Wx x + bx + r * Ux h), of the decoder's second one tanh(Wx x + r * (Ux h + bx)).
//
// 1. S2sEncoder::Build: memory_t = [forward h_t, backward h_t]; start = tanh(Ws mean(memory) + bs).
//    The arrays of both directions are brought into the layout of a RecurrentSequence, update
//    before reset (CopyMatrices).
// 2. S2sDecoder::Build, a step: g = cell1(E[token], h); e_t = v * tanh(Wc memory_t + b + Wg g)
//    (Attention); c = softmax(e) * memory; h' = cell2(c, g); logits = Wt tanh(W0 E[token] + W1 h' +
//    W2 c + b0 + b1 + b2) + b.
//
// MarianArrays keeps the first array that is missing or has another shape; the translation goes on
// with zeros, and the caller asks for the fault at the end.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/import/marian_nodes.h"
#include "ops/import/recurrent_sequence.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kAnyExtent = PartialShape::kDynamic;

// Names of arrays, which Nematus' models have otherwise.
struct S2sNames {
  std::string forward = "encoder_bi";
  std::string backward = "encoder_bi_r";
  std::string start = "decoder_ff_state";
  std::string first = "decoder_cell1";
  // Of the second cell.
  std::string u = "decoder_cell2_U", ux = "decoder_cell2_Ux", w = "decoder_cell2_W",
              wx = "decoder_cell2_Wx", b = "decoder_cell2_b", bx = "decoder_cell2_bx";
  std::vector<std::string> readout_w = {"decoder_ff_logit_l1_W0", "decoder_ff_logit_l1_W1",
                                        "decoder_ff_logit_l1_W2"};
  std::vector<std::string> readout_b = {"decoder_ff_logit_l1_b0", "decoder_ff_logit_l1_b1",
                                        "decoder_ff_logit_l1_b2"};
  std::string output_w = "decoder_ff_logit_l2_W";
  std::string output_b = "decoder_ff_logit_l2_b";
};

S2sNames NamesOf(const MarianOptions& options) {
  S2sNames names;
  if (options.has_nematus_names) {
    names.forward = "encoder";
    names.backward = "encoder_r";
    names.start = "ff_state";
    names.first = "decoder";
    names.u = "decoder_U_nl";
    names.ux = "decoder_Ux_nl";
    names.w = "decoder_Wc";
    names.wx = "decoder_Wcx";
    names.b = "decoder_b_nl";
    names.bx = "decoder_bx_nl";
    names.readout_w = {"ff_logit_prev_W", "ff_logit_lstm_W", "ff_logit_ctx_W"};
    names.readout_b = {"ff_logit_prev_b", "ff_logit_lstm_b", "ff_logit_ctx_b"};
    names.output_w = "ff_logit_W";
    names.output_b = "ff_logit_b";
  }
  return names;
}

class S2sEncoder : MarianNodes {
 public:
  S2sEncoder(MarianArrays& arrays, Graph& graph)
      : MarianNodes(arrays, graph), names_(NamesOf(options_)) {}

  absl::Status Build() {
    const int64_t width = options_.width;
    const int64_t state = options_.state_width;
    const ValueId source = Parameter("source", DType::kI64, {kAnyExtent, kAnyExtent});
    RecurrentSequence sequence;
    sequence.cell = RecurrentSequence::Cell::kGru;
    sequence.direction = RecurrentSequence::Direction::kBidirectional;
    sequence.hidden_size = state;
    sequence.linear_before_reset = true;
    sequence.x = Embedding(options_.source_table(), source, ValueId(), 1);
    if (!HasCells()) {
      return absl::OkStatus();  // `arrays` has the fault; nothing was allocated for what is missing
    }
    Tensor w(DType::kF32, {2, 3 * state, width});
    Tensor r(DType::kF32, {2, 3 * state, state});
    Tensor b = Tensor(DType::kF32, {2, 4 * state});
    std::fill_n(b.mutable_data<float>(), b.num_elements(), 0.0f);
    for (const int64_t direction : {0, 1}) {
      const std::string& name = direction == 0 ? names_.forward : names_.backward;
      CopyMatrices(name + "_W", width, direction, w);
      CopyMatrices(name + "_U", state, direction, r);
      const Tensor gates = Floats(name + "_b", 1, 2 * state);
      const Tensor candidate = Floats(name + "_bx", 1, state);
      for (int64_t i = 0; i < state; ++i) {
        float* const row = b.mutable_data<float>() + direction * 4 * state;
        row[i] = gates.data<float>()[state + i];
        row[state + i] = gates.data<float>()[i];
        row[2 * state + i] = candidate.data<float>()[i];
      }
    }
    NodeAppender add = At(names_.forward);
    sequence.w = add.Constant(std::move(w));
    sequence.r = add.Constant(std::move(r));
    sequence.b = add.Constant(std::move(b));
    BW_ASSIGN_OR_RETURN(const RecurrentOutputs outputs,
                        AppendRecurrentSequence(sequence, names_.forward, graph_));
    // [rows, 2, length, state] to [rows, length, 2 * state].
    const ValueId by_position = add.Add("Transpose", {outputs.y, add.Ints({0, 2, 1, 3})});
    const ValueId memory = add.Add("Reshape", {by_position, add.Ints({0, 0, 2 * state})},
                                   MarianAttribute("special_zero", true));
    Result("memory", memory);
    const ValueId mean = At(names_.start)
                             .Add("ReduceMean", {memory, At(names_.start).Ints({1})},
                                  MarianAttribute("keep_dims", false));
    Result("start", At(names_.start)
                        .Add("Tanh", {Affine(mean, names_.start + "_W", names_.start + "_b",
                                             2 * state, state)}));
    return absl::OkStatus();
  }

 private:
  // Whether the file has the arrays of both cells.
  bool HasCells() {
    const int64_t state = options_.state_width;
    bool has_all = true;
    for (const std::string& name : {names_.forward, names_.backward}) {
      const std::pair<const char*, Shape> arrays[] = {{"_W", {options_.width, 2 * state}},
                                                      {"_Wx", {options_.width, state}},
                                                      {"_U", {state, 2 * state}},
                                                      {"_Ux", {state, state}},
                                                      {"_b", {1, 2 * state}},
                                                      {"_bx", {1, state}}};
      for (const auto& [suffix, shape] : arrays) {
        has_all = arrays_.Take(name + suffix, shape) != nullptr && has_all;
      }
    }
    return has_all;
  }
  // The array, which is there, as [depth, columns]; zeros if it can't be read.
  Tensor Floats(const std::string& name, int64_t depth, int64_t columns) {
    const MarianArray& array = *arrays_.file().Find(name);
    const bool is_transposed = array.type == MarianArray::Type::kIntgemm8;
    const Tensor values =
        arrays_.Value(name, arrays_.file().Floats(array, is_transposed ? Shape{columns, depth}
                                                                       : Shape{depth, columns}));
    if (values.has_value() && !is_transposed) {
      return values;
    }
    Tensor turned(DType::kF32, {depth, columns});
    for (int64_t i = 0; i < turned.num_elements(); ++i) {
      turned.mutable_data<float>()[i] =
          values.has_value() ? values.data<float>()[i % columns * depth + i / columns] : 0.0f;
    }
    return turned;
  }
  // Both gates' matrix, reset before update, and the candidate's into `to` [2, 3 * state, depth]:
  // update, reset, candidate.
  void CopyMatrices(const std::string& name, int64_t depth, int64_t direction, Tensor& to) {
    const int64_t state = options_.state_width;
    const Tensor gates = Floats(name, depth, 2 * state);
    const Tensor candidate = Floats(name + "x", depth, state);
    float* const out = to.mutable_data<float>() + direction * 3 * state * depth;
    for (int64_t i = 0; i < state; ++i) {
      for (int64_t k = 0; k < depth; ++k) {
        const float* const row = gates.data<float>() + k * 2 * state;
        out[i * depth + k] = row[state + i];
        out[(state + i) * depth + k] = row[i];
        out[(2 * state + i) * depth + k] = candidate.data<float>()[k * state + i];
      }
    }
  }

  const S2sNames names_;
};

class S2sDecoder : MarianNodes {
 public:
  S2sDecoder(MarianArrays& arrays, Graph& graph)
      : MarianNodes(arrays, graph), names_(NamesOf(options_)) {}

  void Build() {
    const int64_t width = options_.width;
    const int64_t state = options_.state_width;
    const ValueId token = Parameter("token", DType::kI64, {kAnyExtent});
    const ValueId position = Parameter("position", DType::kF32, {kAnyExtent, 1});
    const ValueId cell = Parameter("cell1", DType::kF32, {kAnyExtent, state});
    const ValueId memory = Parameter("memory", DType::kF32, {kAnyExtent, kAnyExtent, 2 * state});
    Attributes between = MarianAttribute("min", 0.0);
    between.Set("max", 1.0);
    NodeAppender add = At("positions");
    const ValueId is_later = add.Add("Clamp", {position}, std::move(between));
    const ValueId next = add.Add("Add", {position, Number(add, 1)});
    const ValueId x = Embedding(options_.target_table(), token, is_later, 1);

    const std::string& first = names_.first;
    const ValueId query = Cell(
        x, cell,
        {first + "_W", first + "_Wx", first + "_U", first + "_Ux", first + "_b", first + "_bx"},
        width, /*bias_is_reset=*/false);
    ValueId shares;
    const ValueId context = Attention(query, memory, shares);
    const ValueId after =
        Cell(context, query, {names_.w, names_.wx, names_.u, names_.ux, names_.b, names_.bx},
             2 * state, /*bias_is_reset=*/true);
    NodeAppender readout = At("readout");
    const auto part = [&](ValueId value, size_t number, int64_t depth) {
      return Affine(value, names_.readout_w[number], names_.readout_b[number], depth, width);
    };
    const ValueId sum =
        readout.Add("Add", {readout.Add("Add", {part(x, 0, width), part(after, 1, state)}),
                            part(context, 2, 2 * state)});
    Result("logits", Logits(readout.Add("Tanh", {sum})));
    Result("position_next", next);
    Result("cell1_next", after);
    Result("alignment", shares);
  }

 private:
  struct CellArrays {
    std::string w, wx, u, ux, b, bx;
  };
  ValueId Cell(ValueId x, ValueId cell, const CellArrays& names, int64_t depth,
               bool bias_is_reset) {
    const int64_t state = options_.state_width;
    NodeAppender add = At(names.w);
    const auto sum = [&](ValueId a, ValueId b) { return add.Add("Add", {a, b}); };
    // Both gates in one product, reset before update.
    const ValueId arguments =
        sum(Product(x, names.w, depth, 2 * state), Product(cell, names.u, state, 2 * state));
    const ValueId gates = add.Add("Sigmoid", {sum(arguments, Vector(names.b, 2 * state))});
    const ValueId reset =
        add.Add("Split", {gates, add.Int(1)}, MarianAttribute("num_splits", int64_t{2}), 2);
    const ValueId update = {reset.node, 1};
    ValueId kept = Product(cell, names.ux, state, state);
    ValueId input = Product(x, names.wx, depth, state);
    const ValueId bias = Vector(names.bx, state);
    (bias_is_reset ? kept : input) = sum(bias_is_reset ? kept : input, bias);
    const ValueId candidate = add.Add("Tanh", {sum(input, add.Add("Multiply", {reset, kept}))});
    const ValueId rest = add.Add("Subtract", {Number(add, 1), update});
    return sum(add.Add("Multiply", {rest, candidate}), add.Add("Multiply", {update, cell}));
  }

  // shares: [rows, length].
  ValueId Attention(ValueId query, ValueId memory, ValueId& shares) {
    const int64_t state = options_.state_width;
    NodeAppender add = At("attention");
    const ValueId keys = Affine(memory, "decoder_Wc_att", "decoder_b_att", 2 * state, 2 * state);
    const ValueId wanted = add.Add(
        "Unsqueeze", {Product(query, "decoder_W_comb_att", state, 2 * state), add.Ints({1})});
    const ValueId energies =
        Product(add.Add("Tanh", {add.Add("Add", {keys, wanted})}), "decoder_U_att", 2 * state, 1);
    shares = add.Add("SoftMax", {add.Add("Squeeze", {energies, add.Ints({2})})},
                     MarianAttribute("axis", int64_t{-1}));
    const ValueId weights = add.Add("Unsqueeze", {shares, add.Ints({1})});
    return add.Add("Squeeze", {add.Add("MatMul", {weights, memory}), add.Ints({1})});
  }

  ValueId Logits(ValueId x) {
    const MarianArray* const table = arrays_.Take(options_.target_table(), {-1, options_.width});
    if (table == nullptr) {
      return x;
    }
    const int64_t tokens = table->shape[0];
    // Newer files have the matrix with a row for each token.
    const std::string by_rows = "decoder_ff_logit_l2_Wt";
    const std::string name = options_.tied_output ? options_.target_table() : by_rows;
    ValueId product;
    if (options_.tied_output || arrays_.file().Find(by_rows) != nullptr) {
      const MarianArray* const rows = arrays_.Take(name, {tokens, options_.width});
      if (rows == nullptr) {
        return x;
      }
      const ValueId w = Constant(name, arrays_.file().Floats(*rows, rows->shape));
      product = At("logits").Add("MatMul", {x, w}, MarianAttribute("transpose_b", true));
    } else {
      product = Product(x, names_.output_w, options_.width, tokens);
    }
    return At("logits").Add("Add", {product, Vector(names_.output_b, tokens)});
  }

  const S2sNames names_;
};

}  // namespace

absl::Status BuildMarianS2s(MarianArrays& arrays, Graph& encoder, Graph& decoder) {
  BW_RETURN_IF_ERROR(S2sEncoder(arrays, encoder).Build());
  S2sDecoder(arrays, decoder).Build();
  return absl::OkStatus();
}

}  // namespace beamwright::ops
