// A bundle built in memory whose model is a table: the state is a whole number that tokens move,
// and the scores are the state's line of the table. Everything is exact, so that answers can be
// compared to the bit.
#ifndef BEAMWRIGHT_TESTS_SERVER_ENGINE_TABLE_BUNDLE_H_
#define BEAMWRIGHT_TESTS_SERVER_ENGINE_TABLE_BUNDLE_H_

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "server/model/bundle.h"
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

struct TableOptions {
  std::vector<std::string> end_tokens = {"1"};
  // Adds 0 times the sum over all rows: rows can no longer be told apart.
  bool mixes_rows = false;
  // Gives the logits the constant shape [1, vocabulary].
  bool fixed_batch = false;
  bool with_encoder = true;
};

inline ops::Graph StepGraph(const std::vector<float>& table, const TableOptions& options) {
  testing_support::GraphBuilder graph;
  const auto token = graph.Parameter("token", ops::DType::kI64, {-1});
  const auto state = graph.Parameter("state", ops::DType::kI64, {-1});
  const auto moved = graph.Add("Add", {graph.Add("Multiply", {state, graph.Int(31)}),
                                       graph.Add("Multiply", {token, graph.Int(7)})});
  const auto next =
      graph.Add("FloorMod", {graph.Add("Add", {moved, graph.Int(3)}), graph.Int(kStates)});
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
  graph.Result("next_state", next);
  return graph.Build();
}

// source [rows, length] -> its sum modulo the number of states.
inline ops::Graph EncoderGraph() {
  testing_support::GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto sum = graph.Add("ReduceSum", {source, graph.Ints({1})}, {{"keep_dims", false}});
  graph.Result("first_state", graph.Add("FloorMod", {sum, graph.Int(kStates)}));
  return graph.Build();
}

inline std::shared_ptr<const model::TextCodec> IdCodec(v1::TextConfig config) {
  auto codec = model::TextCodec::Create(config, "");
  BW_CHECK(codec.ok());
  return *std::move(codec);
}

inline model::Bundle TableBundle(const std::vector<float>& table, const TableOptions& options) {
  model::Bundle bundle;
  bundle.name = "table";
  bundle.version = "1";
  v1::ModelConfig& config = bundle.config;
  config.set_format_version(1);
  v1::DecoderConfig& decoder = *config.mutable_decoder();
  decoder.set_token_input("token");
  decoder.set_logits_output("logits");
  decoder.set_logits_kind(v1::LOGITS_KIND_LOG_PROBS);
  v1::StateConfig& state = *decoder.add_states();
  state.set_input("state");
  state.set_output("next_state");
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
    bundle.encoder = EncoderGraph();
  }
  bundle.decoder = StepGraph(table, options);
  bundle.source = IdCodec(config.source());
  bundle.target = IdCodec(config.target());
  return bundle;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_SERVER_ENGINE_TABLE_BUNDLE_H_
