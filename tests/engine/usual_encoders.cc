#include "tests/engine/trial_encoders.h"
#include "tests/support/random_weight.h"

namespace beamwright::engine_testing {

using ops::DType;
using ops::ValueId;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Joined;
using testing_support::Scanned;
using testing_support::Sliced;
using testing_support::Stacked;

ValueId Layers::Weight(const ops::Shape& shape) {
  return graph.Constant(testing_support::RandomWeight(shape, random));
}

ops::Graph BuildEncoder(const TrialEncoder& encoder, int64_t columns) {
  GraphBuilder graph;
  const ValueId source = graph.Parameter("source", DType::kI64, {-1, -1});
  Layers layers{graph, {}};
  if (encoder.length_kind == v1::LENGTH_INPUT_LENGTHS) {
    layers.lengths = graph.Parameter("lengths", DType::kI64, {-1});
  } else if (encoder.length_kind != v1::LENGTH_INPUT_NONE) {
    layers.lengths = graph.Parameter("lengths", DType::kF32, {-1, -1});
  }
  // Some sources are much louder than others.
  std::vector<float> table;
  std::normal_distribution<float> normal(0, 1);
  for (int64_t id = 0; id < kSourceIds; ++id) {
    for (int64_t i = 0; i < kFeatures; ++i) {
      table.push_back(normal(layers.random) * (id % 7 == 0 ? 5 : 1));
    }
  }
  const ValueId rows = graph.Constant(ops::Tensor::Of<float>({kSourceIds, kFeatures}, table));
  const ValueId y = encoder.middle(layers, graph.Add("Gather", {rows, source, graph.Int(0)}));
  graph.Result("first_h", graph.Add("MatMul", {layers.Reduce("ReduceMean", y, {1}, false),
                                               layers.Weight({kFeatures, columns})}));
  return graph.Build();
}

namespace {

// One step of a cell over [rows, width]; states are those of `op`.
std::vector<ValueId> Cell(Layers& in, const std::string& op, ValueId x,
                          const std::vector<ValueId>& states) {
  const int64_t gates = op == "LSTMCell" ? 4 : 3;
  std::vector<ValueId> inputs = {x};
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.push_back(in.Weight({gates * kFeatures, kFeatures}));
  inputs.push_back(in.Weight({gates * kFeatures, kFeatures}));
  inputs.push_back(in.Weight({gates * kFeatures}));
  const ValueId cell =
      in.graph.Add(op, inputs, {{"hidden_size", kFeatures}}, "", static_cast<int>(states.size()));
  return states.size() == 2 ? std::vector<ValueId>{cell, {cell.node, 1}}
                            : std::vector<ValueId>{cell};
}

// [rows, kFeatures] of zeros, as exports make them: as many as x has rows.
ValueId Zeros(Layers& in, ValueId x, int64_t batch_axis = 0) {
  const ValueId shape =
      in.Add("Concat", {in.List(in.Extent(x, batch_axis)), in.graph.Ints({kFeatures})},
             {{"axis", int64_t{0}}});
  return in.Add("Broadcast", {in.F32(0), shape}, {{"mode", std::string("numpy")}});
}

// A recurrent layer over x [rows, time, kFeatures], read backwards if asked for.
ValueId Recurrent(Layers& in, const std::string& op, ValueId x, bool reversed,
                  bool has_lengths = false) {
  const size_t num_states = op == "LSTMCell" ? 2 : 1;
  GraphBuilder body;
  Layers inside{body, {}, std::mt19937(reversed ? 3 : 4)};
  const ValueId slice = body.Parameter("x", DType::kF32, {-1, 1, kFeatures});
  std::vector<ValueId> states;
  ops::Loop loop;
  loop.inputs = {reversed ? Sliced(0, 0, 1, -1, 0, -1) : Sliced(0, 0, 1)};
  std::vector<ValueId> inputs = {x};
  for (size_t i = 0; i < num_states; ++i) {
    const auto port = static_cast<int>(i) + 1;
    states.push_back(body.Parameter("state" + std::to_string(i), DType::kF32, {-1, kFeatures}));
    loop.inputs.push_back(Carried(port, port, port));
    inputs.push_back(Zeros(in, x));
  }
  const std::vector<ValueId> next =
      Cell(inside, op, body.Add("Squeeze", {slice, body.Ints({1})}), states);
  body.Result("part", body.Add("Unsqueeze", {next[0], body.Ints({1})}));
  for (size_t i = 0; i < next.size(); ++i) {
    body.Result("next" + std::to_string(i), next[i]);
  }
  loop.body = body.Build();
  loop.outputs = {Joined(0, 0, 1, reversed)};
  if (has_lengths) {
    loop.items = ops::Loop::Items::kHeld;
    loop.lengths_input = static_cast<int>(inputs.size());
    inputs.push_back(in.lengths);
  }
  return in.graph.Loop(inputs, std::move(loop), 1);
}

ValueId BiLstm(Layers& in, ValueId x, bool has_lengths = false) {
  const ValueId both = in.Add("Concat",
                              {Recurrent(in, "LSTMCell", x, false, has_lengths),
                               Recurrent(in, "LSTMCell", x, true, has_lengths)},
                              {{"axis", int64_t{2}}});
  return in.Add("MatMul", {both, in.Weight({2 * kFeatures, kFeatures})});
}

// Over [time, rows, width], as a Scan.
ValueId TimeFirst(Layers& in, ValueId x) {
  GraphBuilder body;
  Layers inside{body, {}};
  const ValueId slice = body.Parameter("x", DType::kF32, {-1, kFeatures});
  const ValueId state = body.Parameter("state", DType::kF32, {-1, kFeatures});
  const ValueId next = Cell(inside, "GRUCell", slice, {state})[0];
  body.Result("next", next);
  ops::Loop loop;
  loop.body = body.Build();
  loop.inputs = {Scanned(0, 0, 0), Carried(1, 1, 0)};
  loop.outputs = {Stacked(0, 0, 0)};
  const ValueId time_first = in.Transpose(x, {1, 0, 2});
  return in.Transpose(in.graph.Loop({time_first, Zeros(in, time_first, 1)}, std::move(loop), 1),
                      {1, 0, 2});
}

ValueId Convolved(Layers& in, ValueId x) {
  const ValueId out =
      in.Add("Convolution", {in.Transpose(x, {0, 2, 1}), in.Weight({kFeatures, kFeatures, 3})},
             {{"strides", std::vector<int64_t>{1}},
              {"dilations", std::vector<int64_t>{1}},
              {"pads_begin", std::vector<int64_t>{1}},
              {"pads_end", std::vector<int64_t>{1}}});
  const ValueId some = in.Weight({kFeatures});
  const ValueId ones =
      in.graph.Constant(ops::Tensor::Of<float>({kFeatures}, std::vector<float>(kFeatures, 1)));
  const ValueId normal =
      in.Add("BatchNormInference", {out, some, some, some, ones}, {{"epsilon", 1e-5}});
  return in.Transpose(in.Add("ReLU", {normal}), {0, 2, 1});
}

// Images to columns, and a BiLSTM over these.
ValueId Crnn(Layers& in, ValueId x) {
  const std::vector<int64_t> ones = {1, 1};
  const ValueId image = in.Add("Unsqueeze", {x, in.graph.Ints({1})});
  const ValueId planes =
      in.Add("Convolution", {image, in.Weight({4, 1, 3, 3})},
             {{"strides", ones}, {"dilations", ones}, {"pads_begin", ones}, {"pads_end", ones}});
  const ValueId pooled = in.Add("MaxPool", {in.Add("ReLU", {planes})},
                                {{"kernel", std::vector<int64_t>{1, 2}},
                                 {"strides", std::vector<int64_t>{1, 2}},
                                 {"dilations", ones},
                                 {"pads_begin", std::vector<int64_t>{0, 0}},
                                 {"pads_end", std::vector<int64_t>{0, 0}}});
  const ValueId columns = in.Transpose(pooled, {0, 2, 1, 3});
  const ValueId shape =
      in.Add("Concat",
             {in.List(in.Extent(columns, 0)), in.List(in.Extent(columns, 1)), in.graph.Ints({-1})},
             {{"axis", int64_t{0}}});
  const ValueId flat = in.Add("Reshape", {columns, shape}, {{"special_zero", false}});
  return BiLstm(in, in.Add("MatMul", {flat, in.Weight({12, kFeatures})}));
}

ValueId LayerNorm(Layers& in, ValueId x) {
  const ValueId centred = in.Add("Subtract", {x, in.Reduce("ReduceMean", x, {-1})});
  const ValueId square = in.Add("Power", {centred, in.F32(2)});
  const ValueId variance = in.Add("Add", {in.Reduce("ReduceMean", square, {-1}), in.F32(1e-5f)});
  return in.Add("Divide", {centred, in.Add("Sqrt", {variance})});
}

// [rows, time, kFeatures] -> [rows, 2, time, 3], with the arithmetic on extents that exports write.
ValueId Heads(Layers& in, ValueId x, bool keys) {
  const ValueId product = in.Add("MatMul", {x, in.Weight({kFeatures, kFeatures})});
  const ValueId shape =
      in.Add("Concat", {in.List(in.Extent(x, 0)), in.List(in.Extent(x, 1)), in.graph.Ints({2, 3})},
             {{"axis", int64_t{0}}});
  const ValueId heads = in.Add("Reshape", {product, shape}, {{"special_zero", false}});
  return in.Transpose(heads,
                      keys ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
}

ValueId Transformer(Layers& in, ValueId x) {
  const ValueId places = in.Add("Range", {in.graph.Int(0), in.Extent(x, 1), in.graph.Int(1)},
                                {{"output_type", std::string("i64")}});
  x = in.Add("Add", {x, in.Add("Gather", {in.Weight({300, kFeatures}), places, in.graph.Int(0)})});
  ValueId scores = in.Add("MatMul", {Heads(in, x, false), Heads(in, x, true)});
  if (in.lengths.present()) {
    scores = in.Add("Add", {scores, in.Add("Unsqueeze", {in.lengths, in.graph.Ints({1, 2})})});
  }
  const ValueId weights = in.Add("SoftMax", {scores}, {{"axis", int64_t{-1}}});
  const ValueId mixed =
      in.Transpose(in.Add("MatMul", {weights, Heads(in, x, false)}), {0, 2, 1, 3});
  const ValueId shape = in.Add(
      "Concat",
      {in.List(in.Extent(mixed, 0)), in.List(in.Extent(mixed, 1)), in.graph.Ints({kFeatures})},
      {{"axis", int64_t{0}}});
  const ValueId joined = in.Add("Reshape", {mixed, shape}, {{"special_zero", false}});
  x = LayerNorm(in, in.Add("Add", {x, joined}));
  const ValueId hidden = in.Add("Gelu", {in.Add("MatMul", {x, in.Weight({kFeatures, 24})})});
  return LayerNorm(in, in.Add("Add", {x, in.Add("MatMul", {hidden, in.Weight({24, kFeatures})})}));
}

// nn.MultiheadAttention, time first: rows and heads share an axis, then time and rows.
ValueId TorchMultihead(Layers& in, ValueId x) {
  const ValueId time_first = in.Transpose(x, {1, 0, 2});
  const ValueId time = in.List(in.Extent(time_first, 0));
  const ValueId rows = in.Extent(time_first, 1);
  const auto reshape = [&](ValueId data, std::vector<ValueId> target) {
    return in.Add("Reshape", {data, in.Add("Concat", std::move(target), {{"axis", int64_t{0}}})},
                  {{"special_zero", false}});
  };
  const auto product = [&](ValueId data) {
    const ValueId weight = in.Weight({kFeatures, kFeatures});
    return in.Add("Add", {in.Add("MatMul", {data, weight}), in.Weight({kFeatures})});
  };
  const ValueId rows_and_heads = in.List(in.Add("Multiply", {rows, in.graph.Int(2)}));
  const auto heads = [&] {
    const ValueId apart = reshape(product(time_first), {time, rows_and_heads, in.graph.Ints({3})});
    return in.Transpose(apart, {1, 0, 2});
  };
  const ValueId scores = in.Add("MatMul", {heads(), heads()}, {{"transpose_b", true}});
  const ValueId weights = in.Add("SoftMax", {scores}, {{"axis", int64_t{-1}}});
  const ValueId mixed = in.Transpose(in.Add("MatMul", {weights, heads()}), {1, 0, 2});
  const ValueId joined = reshape(
      mixed,
      {in.List(in.Add("Multiply", {in.Extent(time_first, 0), rows})), in.graph.Ints({kFeatures})});
  const ValueId out = reshape(product(joined), {time, in.List(rows), in.graph.Ints({kFeatures})});
  return in.Transpose(out, {1, 0, 2});
}

// A projection over [time * rows, width], as torch writes it.
ValueId JoinedAxes(Layers& in, ValueId x) {
  const ValueId joined =
      in.Add("Reshape", {x, in.graph.Ints({-1, kFeatures})}, {{"special_zero", false}});
  const ValueId bias = in.Weight({kFeatures});
  const ValueId out = in.Add(
      "Tanh",
      {in.Add("Add", {in.Add("MatMul", {joined, in.Weight({kFeatures, kFeatures})}), bias})});
  const ValueId shape = in.Add(
      "Concat", {in.List(in.Extent(x, 0)), in.List(in.Extent(x, 1)), in.graph.Ints({kFeatures})},
      {{"axis", int64_t{0}}});
  return in.Add("Reshape", {out, shape}, {{"special_zero", false}});
}

// Zeros behind each source's length, by the longest of them.
ValueId Masked(Layers& in, ValueId x) {
  const ValueId longest = in.Reduce("ReduceMax", in.lengths, {0}, false);
  const ValueId places = in.Add("Range", {in.graph.Int(0), longest, in.graph.Int(1)},
                                {{"output_type", std::string("i64")}});
  const ValueId inside =
      in.Add("Less", {places, in.Add("Unsqueeze", {in.lengths, in.graph.Ints({1})})});
  return in.Add("Multiply", {x, in.Add("Unsqueeze", {in.Float(inside), in.graph.Ints({2})})});
}

ops::Graph Scaled(float factor) {
  GraphBuilder body;
  const ValueId x = body.Parameter("x", DType::kF32, {-1, -1, kFeatures});
  body.Result("y", body.Add("Multiply", {x, body.Constant(ops::Tensor::Scalar(factor))}));
  return body.Build();
}

ValueId IfOnLength(Layers& in, ValueId x) {
  const ValueId is_long = in.Add("Greater", {in.Extent(x, 1), in.graph.Int(3)});
  return in.graph.If({is_long, x}, Scaled(2), Scaled(1));
}

// One query for all sources, repeated for each by Expand.
ValueId ExpandedQuery(Layers& in, ValueId x) {
  const ValueId shape =
      in.Add("Concat", {in.List(in.Extent(x, 0)), in.graph.Ints({1, 1})}, {{"axis", int64_t{0}}});
  const ValueId query = in.Add("Broadcast", {in.Weight({1, 1, kFeatures}), shape},
                               {{"mode", std::string("bidirectional")}});
  const ValueId keys = in.Add("Concat", {query, x}, {{"axis", int64_t{1}}});
  const ValueId scores = in.Add("MatMul", {query, keys}, {{"transpose_b", true}});
  return in.Add("MatMul", {in.Add("SoftMax", {scores}, {{"axis", int64_t{2}}}), keys});
}

ValueId OverTime(Layers& in, ValueId x) {
  const ValueId sums = in.Add("CumSum", {x, in.graph.Int(1)});
  const ValueId top = in.graph.Add(
      "TopK", {sums, in.graph.Int(2)},
      {{"axis", int64_t{1}}, {"mode", std::string("max")}, {"sort", std::string("value")}}, "", 2);
  const ValueId loudest = in.Add("ArgMax", {x}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
  const ValueId picked = in.Add("GatherElements", {x, loudest}, {{"axis", int64_t{1}}});
  const ValueId back = in.Add("Reverse", {x, in.graph.Ints({1})}, {{"mode", std::string("index")}});
  const ValueId norm = in.Add(
      "MVN", {back, in.graph.Ints({1, 2})},
      {{"eps", 1e-5}, {"eps_mode", std::string("inside_sqrt")}, {"normalize_variance", true}});
  return in.Add("Add", {in.Add("Add", {norm, picked}), in.Reduce("ReduceMean", top, {1})});
}

// What `quantize_dynamic` writes before a product.
ValueId DynamicallyQuantised(Layers& in, ValueId x) {
  const ValueId bytes = in.graph.Add("DynamicQuantizeLinear", {x}, {}, "", 3);
  std::vector<int8_t> weights;
  for (int i = 0; i < kFeatures * kFeatures; ++i) {
    weights.push_back(static_cast<int8_t>(i * 37 % 255 - 127));
  }
  const ValueId weight =
      in.graph.Constant(ops::Tensor::Of<int8_t>({kFeatures, kFeatures}, weights));
  const ValueId sums = in.Add("MatMulInteger", {bytes, weight, {bytes.node, 2}});
  return in.Add("Multiply", {in.Float(sums), {bytes.node, 1}});
}

std::vector<TrialEncoder> Recurrences() {
  return {
      {"Gru", [](Layers& in, ValueId x) { return Recurrent(in, "GRUCell", x, false); }},
      {"QuantizeDynamic", DynamicallyQuantised},
      {"ReversedLstm", [](Layers& in, ValueId x) { return Recurrent(in, "LSTMCell", x, true); }},
      {"BiLstm", [](Layers& in, ValueId x) { return BiLstm(in, x); }},
      {"BiLstmWithLengths", [](Layers& in, ValueId x) { return BiLstm(in, x, true); },
       v1::LENGTH_INPUT_LENGTHS},
      {"TimeFirst", TimeFirst},
      {"Crnn", Crnn},
  };
}

}  // namespace

std::vector<TrialEncoder> UsualEncoders() {
  std::vector<TrialEncoder> all = Recurrences();
  const std::vector<TrialEncoder> others = {
      {"Embedding", [](Layers& in, ValueId x) { return in.Add("Tanh", {x}); }},
      {"Convolution", Convolved},
      {"Transformer", Transformer},
      {"TransformerWithMask", Transformer, v1::LENGTH_INPUT_ADDITIVE_MASK},
      {"TorchMultihead", TorchMultihead},
      {"JoinedAxes", JoinedAxes},
      {"Masked", Masked, v1::LENGTH_INPUT_LENGTHS},
      {"IfOnLength", IfOnLength},
      {"ExpandedQuery", ExpandedQuery},
      {"OverTime", OverTime},
      {"WhisperClampOfEach",
       [](Layers& in, ValueId x) {
         const ValueId most = in.Reduce("ReduceMax", x, {1, 2});
         return in.Add("Maximum", {x, in.Add("Subtract", {most, in.F32(2)})});
       }},
      {"QuantisedEach",
       [](Layers& in, ValueId x) {
         const ValueId most = in.Reduce("ReduceMax", in.Add("Abs", {x}), {1, 2});
         const ValueId scale = in.Add("Divide", {most, in.F32(127)});
         return in.Add("Multiply", {in.Add("Round", {in.Add("Divide", {x, scale})}), scale});
       }},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace beamwright::engine_testing
