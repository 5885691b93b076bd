// A bundle built in memory whose model is a table: the state is a whole number that tokens move,
// and the scores are the state's line of the table. Everything is exact, so that answers can be
// compared to the bit.
#ifndef BEAMWRIGHT_TESTS_ENGINE_TABLE_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_TABLE_BUNDLE_H_

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "engine/bundle/bundle.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine_testing {

inline constexpr int kStates = 97;
inline constexpr int kVocabulary = 7;
inline constexpr int kBegin = 0;

inline int64_t NextState(int64_t state, int64_t token) {
  return (state * 31 + token * 7 + 3) % kStates;
}
inline int64_t FirstState(const std::vector<int32_t>& source) {
  int64_t sum = 0;
  for (const int32_t id : source) {
    sum += id;
  }
  return sum % kStates;
}

// Log-probabilities [kStates, kVocabulary].
inline std::vector<float> RandomTable(int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> table(kStates * kVocabulary);
  for (size_t state = 0; state < kStates; ++state) {
    double sum = 0;
    for (size_t token = 0; token < kVocabulary; ++token) {
      float& value = table[state * kVocabulary + token];
      value = normal(random);
      sum += std::exp(static_cast<double>(value));
    }
    for (size_t token = 0; token < kVocabulary; ++token) {
      table[state * kVocabulary + token] -= static_cast<float>(std::log(sum));
    }
  }
  return table;
}

// The same decoder as different tools would export it.
enum class Form {
  kStep,        // one step, states as inputs and outputs
  kVariables,   // one step; the state is a variable, its rows indexed by an input beam_idx
  kBatchFirst,  // a loop over tokens [rows, time]; products before it, the table after it
  kTimeFirst,   // the same with transposes to [time, rows] around a Scan, and a state [1, rows]
};

struct TableOptions {
  std::vector<std::string> end_tokens = {"1"};
  // Adds 0 times the sum over all rows: rows can no longer be separated.
  bool mixes_rows = false;
  // As exported for one row: inputs declare a batch of 1, the logits get the constant shape
  // [1, vocabulary].
  bool fixed_batch = false;
  bool with_encoder = true;
  Form form = Form::kStep;
};

// state [rows], x = 7 token [rows] -> next state [rows].
inline testing_support::GraphBuilder::Value NextStates(testing_support::GraphBuilder& graph,
                                                       testing_support::GraphBuilder::Value state,
                                                       testing_support::GraphBuilder::Value x) {
  const auto moved = graph.Add("Add", {graph.Add("Multiply", {state, graph.Int(31)}), x});
  return graph.Add("FloorMod", {graph.Add("Add", {moved, graph.Int(3)}), graph.Int(kStates)});
}

inline ops::Graph StepGraph(const std::vector<float>& table, const TableOptions& options) {
  testing_support::GraphBuilder graph;
  const int64_t rows = options.fixed_batch ? 1 : -1;
  const auto token = graph.Parameter("token", ops::DType::kI64, {rows});
  auto state = graph.Parameter("state", ops::DType::kI64, {rows});
  if (options.form == Form::kVariables) {
    const auto beam_idx = graph.Parameter("beam_idx", ops::DType::kI32, {-1});
    state = graph.Add("Gather", {state, beam_idx, graph.Int(0)});
  }
  const auto next = NextStates(graph, state, graph.Add("Multiply", {token, graph.Int(7)}));
  auto scores = graph.Add(
      "Gather",
      {graph.Constant(ops::Tensor::Of<float>({kStates, kVocabulary}, table)), next, graph.Int(0)});
  if (options.mixes_rows) {
    const auto sum = graph.Add("ReduceSum", {scores, graph.Ints({0})}, {{"keep_dims", true}});
    const auto zero = graph.Constant(ops::Tensor::Scalar(0.0f));
    scores = graph.Add("Add", {scores, graph.Add("Multiply", {sum, zero})});
  }
  if (options.fixed_batch) {
    scores =
        graph.Add("Reshape", {scores, graph.Ints({1, kVocabulary})}, {{"special_zero", false}});
  }
  graph.Result("logits", scores);
  graph.Result(options.form == Form::kVariables ? "state" : "next_state", next);
  return graph.Build();
}

// What StepGraph computes, over a whole target at once.
inline ops::Graph SequenceGraph(const std::vector<float>& table, Form form) {
  const bool time_first = form == Form::kTimeFirst;
  const int64_t axis = time_first ? 0 : 1;
  testing_support::GraphBuilder body;
  const auto slice =
      body.Parameter("x", ops::DType::kI64, time_first ? ops::Shape{-1} : ops::Shape{-1, 1});
  const auto state_in = body.Parameter("state", ops::DType::kI64, {-1});
  const auto x = time_first ? slice : body.Add("Squeeze", {slice, body.Ints({1})});
  const auto next = NextStates(body, state_in, x);
  body.Result("part", time_first ? next : body.Add("Unsqueeze", {next, body.Ints({1})}));
  body.Result("next", next);

  testing_support::GraphBuilder graph;
  const auto tokens = graph.Parameter("token", ops::DType::kI64, {-1, -1});
  auto state =
      graph.Parameter("state", ops::DType::kI64, time_first ? ops::Shape{1, -1} : ops::Shape{-1});
  auto steps = graph.Add("Multiply", {tokens, graph.Int(7)});
  if (time_first) {
    state = graph.Add("Squeeze", {state, graph.Ints({0})});
    steps = graph.Add("Transpose", {steps, graph.Ints({1, 0})});
  }
  ops::Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, axis), testing_support::Carried(1, 1, 1)};
  loop.inputs[0].drop_axis = time_first;
  loop.outputs = {testing_support::Joined(0, 0, axis)};
  if (time_first) {
    loop.outputs[0].kind = ops::LoopOutput::Kind::kStacked;
  }
  auto states = graph.Loop({steps, state}, std::move(loop), 1);
  if (time_first) {
    states = graph.Add("Transpose", {states, graph.Ints({1, 0})});
  }
  const auto lines = graph.Constant(ops::Tensor::Of<float>({kStates, kVocabulary}, table));
  graph.Result("logits", graph.Add("Gather", {lines, states, graph.Int(0)}));
  return graph.Build();
}

// source [rows, length] -> its sum modulo the number of states; [1, rows] if `layered`.
inline ops::Graph EncoderGraph(bool layered) {
  testing_support::GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto sum = graph.Add("ReduceSum", {source, graph.Ints({1})}, {{"keep_dims", false}});
  const auto state = graph.Add("FloorMod", {sum, graph.Int(kStates)});
  graph.Result("first_state", layered ? graph.Add("Unsqueeze", {state, graph.Ints({0})}) : state);
  return graph.Build();
}

inline std::shared_ptr<const bundle::TextCodec> IdCodec(v1::TextConfig config) {
  auto codec = bundle::TextCodec::Create(config, "");
  BW_CHECK(codec.ok());
  return *std::move(codec);
}

inline bundle::Bundle TableBundle(const std::vector<float>& table, const TableOptions& options) {
  bundle::Bundle bundle;
  bundle.name = "table";
  bundle.version = "1";
  v1::ModelConfig& config = bundle.config;
  config.set_format_version(1);
  v1::DecoderConfig& decoder = *config.mutable_decoder();
  decoder.set_token_input("token");
  decoder.set_logits_output("logits");
  decoder.set_logits_kind(v1::LOGITS_KIND_LOG_PROBS);
  v1::StateConfig state;
  state.set_input("state");
  if (options.form == Form::kStep) {
    state.set_output("next_state");
  }
  config.mutable_source()->set_form(v1::TEXT_FORM_IDS);
  config.mutable_source()->set_size(50);
  config.mutable_target()->set_form(v1::TEXT_FORM_IDS);
  config.mutable_target()->set_size(kVocabulary);
  config.mutable_target()->set_begin_token(std::to_string(kBegin));
  for (const std::string& token : options.end_tokens) {
    config.mutable_target()->add_end_tokens(token);
  }
  if (options.with_encoder) {
    state.set_encoder_output("first_state");
    bundle.encoder = EncoderGraph(options.form == Form::kTimeFirst);
  }
  if (options.form == Form::kVariables) {
    // That it is a state follows from the graph; only where it starts from is said.
    v1::MemoryConfig& start = *decoder.add_memory();
    start.set_input("state");
    start.set_encoder_output("first_state");
  } else {
    *decoder.add_states() = state;
  }
  const bool is_step = options.form == Form::kStep || options.form == Form::kVariables;
  bundle.decoder = is_step ? StepGraph(table, options) : SequenceGraph(table, options.form);
  bundle.source = IdCodec(config.source());
  bundle.target = IdCodec(config.target());
  return bundle;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_TABLE_BUNDLE_H_
