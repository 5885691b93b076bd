// The table model with attention: position i of the source gets weight softmax(source[i] * state /
// 97), so that what is attended to depends on all tokens read, and is known in closed form.
#ifndef BEAMWRIGHT_TESTS_ENGINE_ATTENTION_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_ATTENTION_BUNDLE_H_

#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/table_bundle.h"

namespace beamwright::engine_testing {

struct AttentionOptions {
  // A second head with the opposite scores: its weights are those of -state.
  bool two_heads = false;
  // Position 1 of every source gets a weight that is not a number.
  bool broken = false;
  // The heads' axis joined with the rows': [2 rows, source].
  bool heads_in_rows = false;
  // Or exported over the whole target, the attention computed behind the loop: [rows, time,
  // source], or [time, rows, source].
  Form form = Form::kStep;
};

inline ops::Graph AttendingSequence(const std::vector<float>& table, Form form) {
  const bool time_first = form == Form::kTimeFirst;
  testing_support::GraphBuilder::Value states;
  ops::Graph whole = SequenceGraph(table, form);
  const ops::Node& lines = whole.node(whole.node(whole.results[0]).inputs[0].node);
  states = lines.inputs[1];
  testing_support::GraphBuilder graph(std::move(whole));
  if (time_first) {
    states = graph.Add("Transpose", {states, graph.Ints({1, 0})});
  }
  const auto memory = graph.Parameter("memory", ops::DType::kF32, {-1, -1});
  const auto factor =
      graph.Add("Multiply", {graph.Add("Convert", {states}, {{"destination_type", "f32"}}),
                             graph.Constant(ops::Tensor::Scalar(1.0f / kStates))});
  const auto scores =
      graph.Add("Multiply", {graph.Add("Unsqueeze", {memory, graph.Ints({time_first ? 0 : 1})}),
                             graph.Add("Unsqueeze", {factor, graph.Ints({2})})});
  graph.Result("attention", graph.Add("SoftMax", {scores}, {{"axis", int64_t{2}}}));
  return graph.Build();
}

inline ops::Graph AttendingStep(const std::vector<float>& table, const AttentionOptions& options) {
  testing_support::GraphBuilder graph;
  const auto token = graph.Parameter("token", ops::DType::kI64, {-1});
  const auto state = graph.Parameter("state", ops::DType::kI64, {-1});
  const auto memory = graph.Parameter("memory", ops::DType::kF32, {-1, -1});
  const auto next = NextStates(graph, state, graph.Add("Multiply", {token, graph.Int(7)}));
  const auto to_float = [&](testing_support::GraphBuilder::Value value) {
    return graph.Add("Convert", {value}, {{"destination_type", "f32"}});
  };
  const auto factor =
      graph.Add("Multiply", {to_float(next), graph.Constant(ops::Tensor::Scalar(1.0f / kStates))});
  auto scores = graph.Add("Multiply", {memory, graph.Add("Unsqueeze", {factor, graph.Ints({1})})});
  if (options.broken) {
    // 0 / 0 where the source has a 1.
    const auto one = graph.Constant(ops::Tensor::Scalar(1.0f));
    const auto zero = graph.Add("Subtract", {memory, one});
    scores = graph.Add("Multiply", {scores, graph.Add("Divide", {zero, zero})});
  }
  const auto attend = [&](testing_support::GraphBuilder::Value of) {
    return graph.Add("SoftMax", {of}, {{"axis", int64_t{1}}});
  };
  auto weights = attend(scores);
  if (options.two_heads) {
    const auto minus = graph.Constant(ops::Tensor::Scalar(-1.0f));
    const auto other = attend(graph.Add("Multiply", {scores, minus}));
    weights = graph.Add("Concat",
                        {graph.Add("Unsqueeze", {weights, graph.Ints({1})}),
                         graph.Add("Unsqueeze", {other, graph.Ints({1})})},
                        {{"axis", int64_t{1}}});
  }
  if (options.heads_in_rows) {
    const auto source_length =
        graph.Add("Gather", {graph.Add("ShapeOf", {memory}), graph.Ints({1}), graph.Int(0)});
    const auto shape =
        graph.Add("Concat", {graph.Ints({-1}), source_length}, {{"axis", int64_t{0}}});
    weights = graph.Add("Reshape", {weights, shape}, {{"special_zero", false}});
  }
  graph.Result(
      "logits",
      graph.Add("Gather", {graph.Constant(ops::Tensor::Of<float>({kStates, kVocabulary}, table)),
                           next, graph.Int(0)}));
  graph.Result("next_state", next);
  graph.Result("attention", weights);
  return graph.Build();
}

inline bundle::Bundle AttentionBundle(const std::vector<float>& table,
                                      const AttentionOptions& options = {}) {
  TableOptions form;
  form.form = options.form;
  bundle::Bundle bundle = TableBundle(table, form);
  testing_support::GraphBuilder encoder(EncoderGraph(options.form == Form::kTimeFirst));
  encoder.Result("memory", encoder.Add("Convert", {{0, 0}}, {{"destination_type", "f32"}}));
  bundle.encoder = encoder.Build();
  bundle.decoder = options.form == Form::kStep ? AttendingStep(table, options)
                                               : AttendingSequence(table, options.form);
  bundle.config.mutable_decoder()->set_attention_output("attention");
  return bundle;
}

// What the model attends to when it chooses each of `tokens`: [token][position].
inline std::vector<std::vector<double>> ExpectedAttention(const std::vector<int32_t>& source,
                                                          const std::vector<int32_t>& tokens) {
  std::vector<std::vector<double>> rows;
  int64_t state = FirstState(source);
  int32_t read = kBegin;
  for (const int32_t token : tokens) {
    state = NextState(state, read);
    std::vector<double>& row = rows.emplace_back();
    double sum = 0;
    for (const int32_t id : source) {
      row.push_back(std::exp(static_cast<double>(id * state) / kStates));
      sum += row.back();
    }
    for (double& weight : row) {
      weight /= sum;
    }
    read = token;
  }
  return rows;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_ATTENTION_BUNDLE_H_
