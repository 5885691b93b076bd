// Prompts and given targets whose tokens are read several at once: answers have the bits of those
// that read a token a step, whatever else runs.
#include <gtest/gtest.h>

#include <atomic>
#include <regex>

#include "absl/synchronization/blocking_counter.h"
#include "engine/model/parts.h"
#include "include/beamwright/engine.h"
#include "ops/base/file.h"
#include "tests/engine/recurrent_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RecurrentBundle;
using engine_testing::RecurrentOptions;
using testing_support::GraphBuilder;
using testing_support::RandomWeight;

using Value = GraphBuilder::Value;

constexpr int64_t kWidth = 48;
constexpr int64_t kHeads = 3;
constexpr int64_t kHead = 16;
constexpr int64_t kTaps = 4;
constexpr int64_t kTokens = 300;

enum class Layer { kGru, kLstmWithAttention, kSsru, kRwkv, kMamba, kDelta, kMixed };

// Steps of language models without an encoder, as exports write them.
class LanguageBundle {
 public:
  // codec: of the tokens; null: kTokens ids.
  bundle::Bundle Build(Layer layer, std::shared_ptr<const bundle::TextCodec> codec = nullptr) {
    const int64_t tokens = codec == nullptr ? kTokens : codec->size();
    engine_testing::TableOptions options;
    options.with_encoder = false;
    bundle_ = TableBundle(engine_testing::RandomTable(1), options);
    decoder().Clear();
    decoder().set_token_input("token");
    decoder().set_logits_output("logits");
    bundle_.config.mutable_target()->set_size(static_cast<int>(tokens));
    bundle_.target = codec == nullptr ? engine_testing::IdCodec(bundle_.config.target()) : codec;
    const Value token = g_.Parameter("token", ops::DType::kI64, {-1});
    Value x = Op("Gather", {Weight({tokens, kWidth}), token, g_.Int(0)});
    for (int i = 0; i < 2; ++i) {
      x = Op("Add",
             {x, Add(layer == Layer::kMixed ? (i == 0 ? Layer::kGru : Layer::kMamba) : layer, x)});
    }
    g_.Result("logits", Op("MatMul", {x, Weight({kWidth, tokens})}));
    bundle_.decoder = g_.Build();
    return std::move(bundle_);
  }

 private:
  v1::DecoderConfig& decoder() { return *bundle_.config.mutable_decoder(); }
  Value Op(const char* op, std::vector<Value> inputs,
           std::vector<std::pair<std::string, ops::AttributeValue>> attributes = {}) {
    return g_.Add(op, std::move(inputs), std::move(attributes));
  }
  Value Weight(const ops::Shape& shape) { return g_.Constant(RandomWeight(shape, random_)); }
  Value Product(Value x, int64_t columns) { return Op("MatMul", {x, Weight({kWidth, columns})}); }
  Value Reshape(Value x, std::vector<int64_t> shape) {
    return Op("Reshape", {x, g_.Ints(std::move(shape))});
  }
  Value State(const ops::Shape& shape) {
    v1::StateConfig& state = *decoder().add_states();
    state.set_input("state" + std::to_string(decoder().states_size()));
    state.set_output("next_" + state.input());
    state.set_constant(0);
    return g_.Parameter(state.input(), ops::DType::kF32, shape);
  }
  void Next(Value value) {
    g_.Result(decoder().states(decoder().states_size() - 1).output(), value);
  }

  Value Add(Layer layer, Value x) {
    switch (layer) {
      case Layer::kGru: {
        const Value state = State({-1, kWidth});
        const Value next = Op("GRUCell",
                              {x, state, Weight({3 * kWidth, kWidth}), Weight({3 * kWidth, kWidth}),
                               Weight({4 * kWidth})},
                              {{"hidden_size", kWidth}, {"linear_before_reset", true}});
        Next(next);
        return next;
      }
      case Layer::kSsru: {
        const Value state = State({-1, kWidth});
        const Value forget = Op("Sigmoid", {Product(x, kWidth)});
        const Value other = Op("Subtract", {g_.Constant(ops::Tensor::Scalar(1.0f)), forget});
        const Value next = Op(
            "Add", {Op("Multiply", {forget, state}), Op("Multiply", {other, Product(x, kWidth)})});
        Next(next);
        return Op("ReLU", {next});
      }
      case Layer::kRwkv: {
        const Value previous = State({-1, kWidth});
        const Value difference = Op("Subtract", {previous, x});
        Next(Op("Tanh", {x}));
        const Value mixed = Op("Add", {x, Op("Multiply", {difference, Weight({kWidth})})});
        const Value decay = Op("Sigmoid", {Product(mixed, kWidth)});
        const Value erase = Op("Tanh", {Product(mixed, kWidth)});
        const Value state = State({-1, kHeads, kHead, kHead});
        const Value outer = Op("MatMul", {Reshape(Product(mixed, kWidth), {-1, kHeads, kHead, 1}),
                                          Reshape(Product(mixed, kWidth), {-1, kHeads, 1, kHead})});
        const Value rule = Op("MatMul", {Reshape(erase, {-1, kHeads, kHead, 1}),
                                         Reshape(Product(x, kWidth), {-1, kHeads, 1, kHead})});
        const Value kept = Op("Multiply", {state, Reshape(decay, {-1, kHeads, 1, kHead})});
        const Value next = Op("Add", {Op("Add", {kept, Op("MatMul", {state, rule})}), outer});
        Next(next);
        const Value query = Reshape(Product(mixed, kWidth), {-1, kHeads, kHead, 1});
        return Product(Reshape(Op("MatMul", {next, query}), {-1, kWidth}), kWidth);
      }
      case Layer::kMamba: {
        const Value window = State({-1, kWidth, kTaps - 1});
        const Value whole = Op("Concat", {window, Reshape(Product(x, kWidth), {-1, kWidth, 1})},
                               {{"axis", int64_t{2}}});
        Next(Op("Slice", {whole, g_.Ints({1}), g_.Ints({kTaps}), g_.Ints({1}), g_.Ints({2})}));
        const Value mixed =
            Op("ReduceSum", {Op("Multiply", {whole, Weight({kWidth, kTaps})}), g_.Ints({2})},
               {{"keep_dims", false}});
        const Value decay = Op("Sigmoid", {Reshape(Product(x, kHeads), {-1, kHeads, 1, 1})});
        const Value state = State({-1, kHeads, kHead, kHead});
        const Value outer = Op("Multiply", {Reshape(mixed, {-1, kHeads, kHead, 1}),
                                            Reshape(Product(x, kHead), {-1, 1, 1, kHead})});
        const Value next = Op("Add", {Op("Multiply", {state, decay}), outer});
        Next(next);
        const Value read = Op("MatMul", {next, Reshape(Product(x, kHead), {-1, 1, kHead, 1})});
        return Product(Reshape(read, {-1, kWidth}), kWidth);
      }
      default: {  // a gated delta rule that reads its state twice, of operators that are not joined
        const Value state = State({-1, kHeads, kHead, kHead});
        const Value decayed = Op(
            "Multiply", {state, Op("Sigmoid", {Reshape(Product(x, kHeads), {-1, kHeads, 1, 1})})});
        const Value key = Op("Tanh", {Reshape(Product(x, kWidth), {-1, kHeads, 1, kHead})});
        const Value found = Op("MatMul", {key, Op("Tanh", {decayed})});
        const Value value =
            Op("Subtract", {Reshape(Product(x, kWidth), {-1, kHeads, 1, kHead}), found});
        const Value next =
            Op("Add", {decayed, Op("MatMul", {Reshape(key, {-1, kHeads, kHead, 1}), value})});
        Next(next);
        return Product(Reshape(Op("MatMul", {key, next}), {-1, kWidth}), kWidth);
      }
    }
  }

  bundle::Bundle bundle_;
  GraphBuilder g_;
  std::mt19937 random_{5};
};

std::shared_ptr<const DecodeModel> Compile(Layer layer, v1::Precision precision) {
  RecurrentOptions with_encoder;
  with_encoder.vocabulary = kTokens;
  bundle::Bundle bundle = layer == Layer::kLstmWithAttention ? RecurrentBundle(with_encoder).Build()
                                                             : LanguageBundle().Build(layer);
  bundle.config.set_precision(precision);
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  const ops::LoopBody& body = *(*model)->parts().decoder().body;
  EXPECT_TRUE(body.plan_positions().possible) << body.plan_positions().reason;
  const bool has_matrices = layer == Layer::kRwkv || layer == Layer::kMamba;
  EXPECT_TRUE(body.writes_in_place() || !has_matrices);
  return *std::move(model);
}

struct Call {
  v1::Source source;
  v1::DecodeOptions options;
  std::vector<std::vector<int32_t>> targets;  // scored, if there are any
};

std::vector<Call> Calls(bool has_encoder) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<Call> calls(16);
  for (size_t i = 0; i < calls.size(); ++i) {
    Call& call = calls[i];
    if (has_encoder) {
      for (int length = pick(1, 6); length > 0; --length) {
        call.source.mutable_ids()->add_ids(pick(0, 49));
      }
    }
    if (i % 4 == 3) {
      for (int count = pick(1, 3); count > 0; --count) {
        std::vector<int32_t>& target = call.targets.emplace_back();
        for (int length = pick(1, 70); length > 0; --length) {
          target.push_back(pick(2, static_cast<int>(kTokens) - 1));
        }
      }
      continue;
    }
    v1::DecodeOptions& options = call.options;
    options.set_beam_size(pick(1, 4));
    options.set_n_best(options.beam_size());
    options.set_max_length(pick(1, 5));
    options.set_score_prefix(i % 3 == 0);
    options.set_top_tokens(i % 5 == 0 ? 2 : 0);
    options.set_repetition_penalty(i % 2 == 0 ? 1.2f : 1.0f);
    for (int length = i % 8 == 0 ? 0 : pick(1, 90); length > 0; --length) {
      options.mutable_target_prefix()->mutable_ids()->add_ids(
          pick(2, static_cast<int>(kTokens) - 1));
    }
  }
  return calls;
}

// By call, the bits of its answer. wave: calls that run at once.
std::vector<std::string> Answers(const std::shared_ptr<const DecodeModel>& model,
                                 const std::vector<Call>& calls, int max_known_rows, size_t wave,
                                 int threads) {
  EngineOptions options;
  options.num_threads = threads;
  options.max_known_rows = max_known_rows;
  const auto engine = *Engine::Start(options);
  std::vector<std::string> answers(calls.size());
  for (size_t first = 0; first < calls.size(); first += wave) {
    const size_t end = std::min(first + wave, calls.size());
    absl::BlockingCounter left(static_cast<int>(end - first));
    for (size_t i = first; i < end; ++i) {
      const Call& call = calls[i];
      if (call.targets.empty()) {
        engine->Decode(model, call.source, call.options, {},
                       [&answers, &left, i](const absl::StatusOr<v1::Decoded>& decoded) {
                         EXPECT_TRUE(decoded.ok()) << decoded.status();
                         std::string& bits = answers[i];
                         for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
                           bits += hypothesis.SerializeAsString();
                         }
                         bits += std::to_string(decoded->steps());
                         left.DecrementCount();
                       });
        continue;
      }
      v1::ScoreSource source;
      *source.mutable_source() = call.source;
      for (const std::vector<int32_t>& target : call.targets) {
        source.add_targets()->mutable_ids()->mutable_ids()->Add(target.begin(), target.end());
      }
      engine->Score(model, source, {}, {}, [&answers, &left, i](const auto& scored) {
        EXPECT_TRUE(scored.ok()) << scored.status();
        for (const v1::ScoredTarget& target : scored->targets()) {
          answers[i] += target.SerializeAsString();
        }
        left.DecrementCount();
      });
    }
    left.Wait();
  }
  return answers;
}

class Prompts : public ::testing::TestWithParam<Layer> {};

TEST_P(Prompts, HaveTheBitsOfATokenAStep) {
  const std::vector<Call> calls = Calls(GetParam() == Layer::kLstmWithAttention);
  for (const v1::Precision precision :
       {v1::PRECISION_F32, v1::PRECISION_BF16, v1::PRECISION_BF16_DOT, v1::PRECISION_BF16_AMX,
        v1::PRECISION_INT8}) {
    const auto model = Compile(GetParam(), precision);
    const std::vector<std::string> expected = Answers(model, calls, 0, 1, 1);
    for (const int max_known_rows : {1, 5, 31}) {
      for (const size_t wave : {size_t{1}, calls.size()}) {
        const auto answers = Answers(model, calls, max_known_rows, wave, wave == 1 ? 1 : 2);
        for (size_t i = 0; i < calls.size(); ++i) {
          ASSERT_TRUE(answers[i] == expected[i])
              << v1::Precision_Name(precision) << ", call " << i << " with " << wave << ", "
              << max_known_rows << " rows";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, Prompts,
                         ::testing::Values(Layer::kGru, Layer::kLstmWithAttention, Layer::kSsru,
                                           Layer::kRwkv, Layer::kMamba, Layer::kDelta,
                                           Layer::kMixed));

// A prompt of 64 tokens and one answer token take three steps, not 65.
TEST(PromptSteps, ReadUpToThirtyTwoTokens) {
  struct Counter : EngineObserver {
    void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {}
    void OnStep(const DecodeModel&, const StepFacts&) override { ++steps; }
    std::atomic<int> steps = 0;
  };
  const auto model = Compile(Layer::kRwkv, v1::PRECISION_F32);
  v1::DecodeOptions decode;
  decode.set_max_length(1);
  for (int i = 0; i < 64; ++i) {
    decode.mutable_target_prefix()->mutable_ids()->add_ids(2 + i);
  }
  for (const auto& [max_known_rows, expected] : {std::pair(31, 3), std::pair(0, 65)}) {
    Counter counter;
    EngineOptions options;
    options.num_threads = 1;
    options.max_known_rows = max_known_rows;
    options.observer = &counter;
    const auto engine = *Engine::Start(options);
    ASSERT_TRUE(engine->DecodeAndWait(model, {}, decode).ok());
    engine->Drain();
    EXPECT_EQ(counter.steps, expected);
  }
}

// Pieces of SentencePiece, whose words begin with a space behind a prompt and without one before.
TEST(Grammars, HoldTextsOfSentencePiece) {
  v1::TextConfig config;
  config.set_form(v1::TEXT_FORM_SENTENCEPIECE);
  config.set_vocabulary("text.model");
  config.set_begin_token("<s>");
  config.add_end_tokens("</s>");
  config.set_unknown_token("<unk>");
  auto codec = bundle::TextCodec::Create(config, *ReadFile(std::string(BEAMWRIGHT_SOURCE_DIR) +
                                                           "/tests/engine/bundle/data/tiny.model"));
  if (absl::IsUnavailable(codec.status())) {
    GTEST_SKIP() << codec.status();
  }
  ASSERT_TRUE(codec.ok()) << codec.status();
  bundle::Bundle bundle = LanguageBundle().Build(Layer::kGru, *std::move(codec));
  *bundle.config.mutable_target() = config;
  const auto model = *DecodeModel::Compile(std::move(bundle));
  EngineOptions engine_options;
  engine_options.num_threads = 1;
  const auto engine = *Engine::Start(engine_options);
  int found = 0;
  for (int i = 0; i < 60; ++i) {
    const bool has_prompt = i % 2 == 1;
    const std::string pattern = i % 3 == 0   ? "(the )?(best|light)( beams?)*"
                                : i % 3 == 1 ? "[a-s]{2,5}( of [a-h]+)?"
                                             : "(a|s)+ ?k";
    v1::DecodeOptions options;
    options.set_regex((has_prompt ? " " : "") + pattern);
    options.set_max_length(12);
    options.set_beam_size(4);
    options.set_n_best(4);
    if (i % 4 == 0) {
      options.set_sampling(v1::SAMPLING_RANDOM);
      options.set_seed(i);
    }
    if (has_prompt) {
      options.mutable_target_prefix()->set_text("a beam");
    }
    const auto decoded = engine->DecodeAndWait(model, {}, options);
    ASSERT_TRUE(decoded.ok() || absl::IsFailedPrecondition(decoded.status())) << decoded.status();
    for (int n = 0; decoded.ok() && n < decoded->hypotheses_size(); ++n) {
      const std::string& text = decoded->hypotheses(n).text();
      EXPECT_TRUE(std::regex_match(text, std::regex((has_prompt ? "a beam " : "") + pattern)))
          << "'" << text << "' of " << pattern;
      ++found;
    }
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace beamwright::engine
