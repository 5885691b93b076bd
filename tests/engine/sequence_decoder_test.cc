// Decoders whose layers are sequences with lengths, as OpenVINO writes every one of them, served;
// and loops over other items that are not, refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/model/parts.h"
#include "include/beamwright/engine.h"
#include "ops/import/recurrent_sequence.h"
#include "ops/loop/model.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using ::testing::HasSubstr;
using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

constexpr int64_t kWidth = 8;
constexpr int64_t kTokens = 7;

ops::Tensor RandomFloats(const ops::Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(ops::NumElements(shape)));
  std::generate(values.begin(), values.end(), [&] { return value(random); });
  return ops::Tensor::Of<float>(shape, values);
}

enum class Lengths { kWhole, kGiven };

// tokens [rows, time], memory [rows, length, width], h0 [rows, width] -> two layers of GRUSequence
// -> attention, its shapes computed as PyTorch's frontend does -> logits [rows, time, tokens].
ops::Graph Decoder(Lengths lengths) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", ops::DType::kI64, {-1, -1});
  const Value memory = graph.Parameter("memory", ops::DType::kF32, {-1, -1, kWidth});
  const Value h0 = graph.Parameter("h0", ops::DType::kF32, {-1, kWidth});
  const auto extent = [&](Value of, int64_t axis) {
    return graph.Add("Gather", {graph.Add("ShapeOf", {of}), graph.Ints({axis}), graph.Int(0)});
  };
  const Value given =
      lengths == Lengths::kGiven ? graph.Parameter("lengths", ops::DType::kI64, {-1}) : Value{};
  Value x = graph.Add("Gather",
                      {graph.Constant(RandomFloats({kTokens, kWidth}, 1)), tokens, graph.Int(0)});
  for (uint32_t layer = 0; layer < 2; ++layer) {
    ops::RecurrentSequence sequence;
    sequence.cell = ops::RecurrentSequence::Cell::kGru;
    sequence.hidden_size = kWidth;
    sequence.x = x;
    sequence.h0 = graph.Add("Unsqueeze", {h0, graph.Ints({1})});
    sequence.lengths =
        given.present() ? given : graph.Add("Broadcast", {extent(tokens, 1), extent(tokens, 0)});
    sequence.w = graph.Constant(RandomFloats({1, 3 * kWidth, kWidth}, 10 + layer));
    sequence.r = graph.Constant(RandomFloats({1, 3 * kWidth, kWidth}, 20 + layer));
    ops::Graph built = graph.Build();
    const auto outputs = AppendRecurrentSequence(sequence, absl::StrCat("layer", layer), built);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    graph = GraphBuilder(std::move(built));
    x = graph.Add("Squeeze", {outputs->y, graph.Ints({1})});
  }
  const auto view = [&](Value data) {
    const Value shape =
        graph.Add("Concat", {extent(memory, 0), extent(data, 1), graph.Ints({2, kWidth / 2})},
                  {{"axis", int64_t{0}}});
    const Value split = graph.Add("Reshape", {data, shape}, {{"special_zero", false}});
    return graph.Add("Transpose", {split, graph.Ints({0, 2, 1, 3})});
  };
  const Value keys = view(memory);
  const Value scores = graph.Add("MatMul", {view(x), keys}, {{"transpose_b", true}});
  const Value weights = graph.Add("SoftMax", {scores}, {{"axis", int64_t{3}}});
  const Value read =
      graph.Add("Transpose", {graph.Add("MatMul", {weights, keys}), graph.Ints({0, 2, 1, 3})});
  const Value joined = graph.Add("Concat", {extent(memory, 0), extent(x, 1), graph.Ints({kWidth})},
                                 {{"axis", int64_t{0}}});
  const Value context = graph.Add("Reshape", {read, joined}, {{"special_zero", false}});
  graph.Result("logits", graph.Add("MatMul", {graph.Add("Add", {x, context}),
                                              graph.Constant(RandomFloats({kWidth, kTokens}, 4))}));
  return graph.Build();
}

ops::Graph Encoder() {
  GraphBuilder graph;
  const Value source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const Value memory =
      graph.Add("Gather", {graph.Constant(RandomFloats({50, kWidth}, 5)), source, graph.Int(0)});
  graph.Result("memory", memory);
  graph.Result("h0", graph.Add("ReduceMean", {memory, graph.Ints({1})}, {{"keep_dims", false}}));
  return graph.Build();
}

bundle::Bundle Bundle(ops::Graph decoder) {
  bundle::Bundle bundle =
      engine_testing::TableBundle(engine_testing::RandomTable(1), engine_testing::TableOptions());
  bundle.encoder = Encoder();
  bundle.decoder = std::move(decoder);
  v1::DecoderConfig& config = *bundle.config.mutable_decoder();
  config.Clear();
  config.set_token_input("tokens");
  config.set_logits_output("logits");
  config.set_logits_kind(v1::LOGITS_KIND_LOGITS);
  return bundle;
}

// Every hypothesis, read by the graph as it was exported, has the log-probabilities that the search
// found step by step; and requests together get the bits that they get alone.
TEST(SequenceDecoder, IsServedAsItScoresWholeTargets) {
  const auto model = DecodeModel::Compile(Bundle(Decoder(Lengths::kWhole)));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->parts().decoder().body->plan().separable)
      << (*model)->parts().decoder().body->plan().reason;
  const auto encoder = ops::Model::Compile(Encoder());
  const auto decoder = ops::Model::Compile(Decoder(Lengths::kWhole));
  ASSERT_TRUE(encoder.ok() && decoder.ok()) << decoder.status();
  const auto engine = Engine::Start({2, 64, 1000});
  ASSERT_TRUE(engine.ok());
  for (const std::vector<int32_t>& ids :
       {std::vector<int32_t>{3}, {4, 9, 30}, {1, 2, 3, 4, 5, 6, 7}}) {
    v1::Source source;
    source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    v1::DecodeOptions options;
    options.set_beam_size(3);
    options.set_n_best(3);
    options.set_max_length(6);
    const auto decoded = (*engine)->DecodeAndWait(*model, source, options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->hypotheses_size(), 3);
    std::vector<ops::Tensor> encoded;
    const std::vector<int64_t> wide(ids.begin(), ids.end());
    ASSERT_TRUE((*encoder)
                    ->Run({},
                          {ops::Tensor::Of<int64_t>({1, static_cast<int64_t>(ids.size())}, wide)},
                          encoded)
                    .ok());
    for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
      std::vector<int64_t> target = {engine_testing::kBegin};
      target.insert(target.end(), hypothesis.tokens().begin(), hypothesis.tokens().end());
      const auto time = static_cast<int64_t>(target.size());
      std::vector<ops::Tensor> outputs;
      const absl::Status ran = (*decoder)->Run(
          {}, {ops::Tensor::Of<int64_t>({1, time}, target), encoded[0], encoded[1]}, outputs);
      ASSERT_TRUE(ran.ok()) << ran;
      for (int i = 0; i < hypothesis.token_log_probs_size() && i < hypothesis.tokens_size(); ++i) {
        const float* logits = outputs[0].data<float>() + i * kTokens;
        double sum = 0;
        for (int64_t token = 0; token < kTokens; ++token) {
          sum += std::exp(double{logits[token]});
        }
        EXPECT_NEAR(hypothesis.token_log_probs(i), logits[hypothesis.tokens(i)] - std::log(sum),
                    1e-5);
      }
    }
  }
}

std::string ErrorOf(ops::Graph decoder) {
  return std::string(DecodeModel::Compile(Bundle(std::move(decoder))).status().message());
}

TEST(SequenceDecoder, LengthsThatMayBeShorterAreRefused) {
  const std::string error = ErrorOf(Decoder(Lengths::kGiven));
  EXPECT_THAT(error, HasSubstr("Loop 'layer0'"));
  EXPECT_THAT(error, HasSubstr("it has sequence lengths"));
}

// One loop, the whole decoder, whose items are held at their ends or run apart.
TEST(SequenceDecoder, ALoopOverItemsOfTheirOwnIsRefused) {
  for (const ops::Loop::Items items : {ops::Loop::Items::kHeld, ops::Loop::Items::kApart}) {
    GraphBuilder body;
    const bool apart = items == ops::Loop::Items::kApart;
    const Value token =
        body.Parameter("token", ops::DType::kI64, apart ? ops::Shape{1} : ops::Shape{-1, 1});
    const Value h =
        body.Parameter("h", ops::DType::kF32, apart ? ops::Shape{kWidth} : ops::Shape{-1, kWidth});
    const Value id = body.Add("Squeeze", {token, body.Ints({apart ? 0 : 1})});
    const Value x =
        body.Add("Gather", {body.Constant(RandomFloats({kTokens, kWidth}, 1)), id, body.Int(0)});
    const Value next = body.Add("Tanh", {body.Add("Add", {x, h})});
    body.Result("next", next);
    body.Result(
        "part",
        body.Add("Unsqueeze",
                 {body.Add("MatMul", {next, body.Constant(RandomFloats({kWidth, kTokens}, 2))}),
                  body.Ints({apart ? 0 : 1})}));
    ops::Loop loop;
    loop.body = body.Build();
    loop.items = items;
    loop.lengths_input = 2;
    loop.inputs = {testing_support::Sliced(0, 0, apart ? 0 : 1), testing_support::Carried(1, 1, 0)};
    loop.outputs = {testing_support::Joined(0, 1, apart ? 0 : 1)};
    GraphBuilder graph;
    const std::vector<Value> inputs = {graph.Parameter("tokens", ops::DType::kI64, {-1, -1}),
                                       graph.Parameter("h0", ops::DType::kF32, {-1, kWidth}),
                                       graph.Parameter("lengths", ops::DType::kI64, {-1})};
    graph.Result("logits", graph.Loop(inputs, std::move(loop), 1));
    EXPECT_THAT(ErrorOf(graph.Build()),
                HasSubstr("Loop 'loop': a loop over items of their own length is not supported"))
        << static_cast<int>(items);
  }
}

}  // namespace
}  // namespace beamwright::engine
