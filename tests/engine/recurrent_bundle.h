// A bundle with random weights and everything that precision and scopes touch: an LSTM cell, a
// product in the attention over the source, a vocabulary projection. A step graph in f32.
#ifndef BEAMWRIGHT_TESTS_ENGINE_RECURRENT_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_RECURRENT_BUNDLE_H_

#include <random>
#include <string>
#include <vector>

#include "tests/engine/table_bundle.h"
#include "tests/support/random_weight.h"

namespace beamwright::engine_testing {

// What stands behind the product of the projection.
enum class Ending { kLogits, kLogSoftmax, kSoftmax, kTanh };

struct RecurrentOptions {
  int64_t width = 50;  // no multiple of any vector, group or strip
  int64_t vocabulary = 513;
  Ending ending = Ending::kLogits;
  bool has_bias = true;
};

class RecurrentBundle {
 public:
  explicit RecurrentBundle(const RecurrentOptions& options) : options_(options) {}

  bundle::Bundle Build() {
    bundle::Bundle bundle = TableBundle(RandomTable(1), TableOptions());
    v1::DecoderConfig& decoder = *bundle.config.mutable_decoder();
    decoder.Clear();
    decoder.set_token_input("token");
    decoder.set_logits_output("logits");
    decoder.set_logits_kind(options_.ending == Ending::kLogSoftmax ? v1::LOGITS_KIND_LOG_PROBS
                            : options_.ending == Ending::kSoftmax  ? v1::LOGITS_KIND_PROBS
                                                                   : v1::LOGITS_KIND_LOGITS);
    v1::StateConfig& h = *decoder.add_states();
    h.set_input("h");
    h.set_output("next_h");
    h.set_encoder_output("first_h");
    v1::StateConfig& c = *decoder.add_states();
    c.set_input("c");
    c.set_output("next_c");
    c.set_constant(0);
    bundle.config.mutable_target()->set_size(static_cast<int>(options_.vocabulary));
    bundle.target = IdCodec(bundle.config.target());
    bundle.encoder = Encoder();
    bundle.decoder = Step();
    return bundle;
  }

 private:
  using GraphBuilder = testing_support::GraphBuilder;

  ops::Tensor Weight(const ops::Shape& shape) {
    return testing_support::RandomWeight(shape, random_);
  }

  ops::Graph Encoder() {
    GraphBuilder graph;
    const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
    const auto memory =
        graph.Add("Gather", {graph.Constant(Weight({50, options_.width})), source, graph.Int(0)});
    graph.Result("memory", memory);
    graph.Result("first_h",
                 graph.Add("ReduceMean", {memory, graph.Ints({1})}, {{"keep_dims", false}}));
    return graph.Build();
  }

  ops::Graph Step() {
    const int64_t width = options_.width;
    GraphBuilder graph;
    const auto token = graph.Parameter("token", ops::DType::kI64, {-1});
    const auto h = graph.Parameter("h", ops::DType::kF32, {-1, width});
    const auto c = graph.Parameter("c", ops::DType::kF32, {-1, width});
    const auto memory = graph.Parameter("memory", ops::DType::kF32, {-1, -1, width});
    const auto x = graph.Add(
        "Gather", {graph.Constant(Weight({options_.vocabulary, width})), token, graph.Int(0)});
    const auto cell =
        graph.Add("LSTMCell",
                  {x, h, c, graph.Constant(Weight({4 * width, width})),
                   graph.Constant(Weight({4 * width, width})), graph.Constant(Weight({4 * width}))},
                  {{"hidden_size", width}}, "", 2);
    const auto query = graph.Add(
        "Unsqueeze",
        {graph.Add("MatMul", {cell, graph.Constant(Weight({width, width}))}), graph.Ints({1})});
    const auto scores = graph.Add("MatMul", {query, memory}, {{"transpose_b", true}});
    const auto weights = graph.Add("SoftMax", {scores}, {{"axis", int64_t{2}}});
    const auto context =
        graph.Add("Squeeze", {graph.Add("MatMul", {weights, memory}), graph.Ints({1})});
    const auto both = graph.Add("Concat", {cell, context}, {{"axis", int64_t{1}}});
    auto out = graph.Add("MatMul", {both, graph.Constant(Weight({options_.vocabulary, 2 * width}))},
                         {{"transpose_b", true}});
    if (options_.has_bias) {
      out = graph.Add("Add", {out, graph.Constant(Weight({1, options_.vocabulary}))});
    }
    if (options_.ending == Ending::kLogSoftmax) {
      out = graph.Add("LogSoftmax", {out}, {{"axis", int64_t{1}}});
    } else if (options_.ending == Ending::kSoftmax) {
      out = graph.Add("SoftMax", {out}, {{"axis", int64_t{-1}}});
    } else if (options_.ending == Ending::kTanh) {
      out = graph.Add("Tanh", {out});
    }
    graph.Result("logits", out);
    graph.Result("next_h", cell);
    graph.Result("next_c", {cell.node, 1});
    return graph.Build();
  }

  const RecurrentOptions options_;
  std::mt19937 random_{11};
};

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_RECURRENT_BUNDLE_H_
