// A tiny random recurrent language model, as a graph and written down a second time, in double.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FRAMES_LANGUAGE_MODEL_H_
#define BEAMWRIGHT_TESTS_ENGINE_FRAMES_LANGUAGE_MODEL_H_

#include <cmath>
#include <vector>

#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine_testing {

inline constexpr int kCells = 5;
inline constexpr float kStart = 0.25f;

// h' = tanh(E[token] + h R), scores h' O, over `tokens` tokens.
inline void AddLanguageModel(int tokens, bundle::Bundle& bundle) {
  v1::ScorerConfig& scorer = *bundle.config.add_scorers();
  scorer.set_name("lm");
  v1::DecoderConfig& config = *scorer.mutable_language_model();
  config.set_graph("lm.onnx");
  config.set_token_input("token");
  config.set_logits_output("scores");
  v1::StateConfig& state = *config.add_states();
  state.set_input("h");
  state.set_output("next_h");
  state.set_constant(kStart);
  GraphBuilder graph;
  const auto token = graph.Parameter("token", ops::DType::kI64, {-1});
  const auto h = graph.Parameter("h", ops::DType::kF32, {-1, kCells});
  const auto embedding = graph.Constant(Weight("lm.embedding", tokens, kCells).tensor());
  const auto read = graph.Add("Gather", {embedding, token, graph.Int(0)});
  const auto next = graph.Add(
      "Tanh", {graph.Add("Add", {read, Product(graph, h, Weight("lm.h", kCells, kCells))})});
  graph.Result("next_h", next);
  graph.Result("scores", Product(graph, next, Weight("lm.output", kCells, tokens)));
  bundle.language_models["lm"] = graph.Build();
}

// The same, of labels: log P(labels), without an end. begin: the token that it begins with.
inline double PlainLanguageModel(int tokens, const Labels& labels, int32_t begin = 0) {
  const Weight embedding("lm.embedding", tokens, kCells);
  const Weight recurrent("lm.h", kCells, kCells);
  const Weight output("lm.output", kCells, tokens);
  std::vector<double> h(kCells, kStart);
  double sum = 0;
  int32_t read = begin;
  for (const int32_t label : labels) {
    h = Plus(embedding.Row(read), recurrent.Times(h));
    for (double& value : h) {
      value = std::tanh(value);
    }
    const std::vector<double> scores = output.Times(h);
    double total = 0;
    for (const double score : scores) {
      total += std::exp(score);
    }
    sum += scores[static_cast<size_t>(label)] - std::log(total);
    read = label;
  }
  return sum;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FRAMES_LANGUAGE_MODEL_H_
