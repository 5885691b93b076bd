// Prompts and given targets whose tokens are read several at once: answers have the bits of those
// that read a token a step, whatever else runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <regex>

#include "absl/synchronization/blocking_counter.h"
#include "engine/model/parts.h"
#include "engine/request/saved_state.h"
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
  auto model = DecodeModel::Compile(std::move(bundle), {precision});
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
                                 const std::vector<Call>& calls, Engine& engine, size_t wave) {
  std::vector<std::string> answers(calls.size());
  for (size_t first = 0; first < calls.size(); first += wave) {
    const size_t end = std::min(first + wave, calls.size());
    absl::BlockingCounter left(static_cast<int>(end - first));
    for (size_t i = first; i < end; ++i) {
      const Call& call = calls[i];
      if (call.targets.empty()) {
        engine.Decode(model, call.source, call.options, {},
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
      engine.Score(model, source, {}, {}, [&answers, &left, i](const auto& scored) {
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

std::vector<std::string> Answers(const std::shared_ptr<const DecodeModel>& model,
                                 const std::vector<Call>& calls, int max_known_rows, size_t wave,
                                 int threads) {
  EngineOptions options;
  options.num_threads = threads;
  options.max_known_rows = max_known_rows;
  return Answers(model, calls, **Engine::Start(options), wave);
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

using Tokens = std::vector<int32_t>;

Tokens RandomTokens(std::mt19937& random, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(std::uniform_int_distribution<int>(2, static_cast<int>(kTokens) - 1)(random));
  }
  return tokens;
}

v1::DecodeOptions Prompt(const Tokens& tokens, int beam_size = 1) {
  v1::DecodeOptions options;
  options.set_beam_size(beam_size);
  options.set_n_best(beam_size);
  options.set_max_length(4);
  options.mutable_target_prefix()->mutable_ids()->mutable_ids()->Add(tokens.begin(), tokens.end());
  if (tokens.empty()) {
    options.clear_target_prefix();
  }
  return options;
}

v1::Source Behind(const std::string& state) {
  v1::Source source;
  source.set_state(state);
  return source;
}

std::unique_ptr<Engine> StartEngine(const std::string& key, int64_t prefix_cache_bytes = 0) {
  EngineOptions options;
  options.num_threads = 1;
  options.state_key = key;
  options.prefix_cache_bytes = prefix_cache_bytes;
  return *Engine::Start(options);
}

constexpr char kKey[] = "thirty-two bytes that replicas share";

class States : public ::testing::TestWithParam<Layer> {};

// A prompt in parts, whose states other engines take over, has the answers of the whole prompt.
TEST_P(States, GoOnWithTheBitsOfOnePrompt) {
  const auto model = Compile(GetParam(), v1::PRECISION_INT8);
  std::mt19937 random(9);
  for (const auto& sizes : std::vector<std::vector<int>>{{40, 7}, {0, 5}, {5, 0}, {1, 33, 2}}) {
    Tokens whole;
    v1::Source source;
    v1::DecodeOptions options;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Tokens part = RandomTokens(random, sizes[i]);
      whole.insert(whole.end(), part.begin(), part.end());
      options = Prompt(part, 3);
      options.set_return_state(i + 1 < sizes.size());
      const auto answer = StartEngine(kKey)->DecodeAndWait(model, source, options);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->state().empty(), i + 1 == sizes.size());
      source = Behind(answer->state());
      if (i + 1 < sizes.size()) {
        continue;
      }
      const auto expected = StartEngine("")->DecodeAndWait(model, {}, Prompt(whole, 3));
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_EQ(answer->hypotheses_size(), expected->hypotheses_size());
      const int before = static_cast<int>(whole.size() - part.size());
      for (int n = 0; n < answer->hypotheses_size(); ++n) {
        v1::Hypothesis rest = expected->hypotheses(n);
        rest.mutable_tokens()->ExtractSubrange(0, before, nullptr);
        rest.mutable_token_log_probs()->ExtractSubrange(0, before, nullptr);
        const v1::Hypothesis& found = answer->hypotheses(n);
        EXPECT_THAT(found.tokens(), ::testing::ElementsAreArray(rest.tokens()));
        EXPECT_THAT(found.token_log_probs(), ::testing::ElementsAreArray(rest.token_log_probs()));
        EXPECT_EQ(found.log_prob(), rest.log_prob());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, States,
                         ::testing::Values(Layer::kGru, Layer::kSsru, Layer::kRwkv, Layer::kMamba,
                                           Layer::kDelta, Layer::kMixed));

TEST(States, AreScoredBehind) {
  const auto model = Compile(Layer::kMamba, v1::PRECISION_F32);
  const auto engine = StartEngine(kKey);
  std::mt19937 random(2);
  const Tokens prompt = RandomTokens(random, 20);
  v1::DecodeOptions options = Prompt(prompt);
  options.set_return_state(true);
  const auto answer = engine->DecodeAndWait(model, {}, options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const v1::Hypothesis& best = answer->hypotheses(0);
  v1::ScoreSource source;
  *source.mutable_source() = Behind(answer->state());
  v1::ScoreOptions score;
  score.set_end_token(false);
  source.add_targets()->mutable_ids()->mutable_ids()->Add(best.tokens().begin() + 20,
                                                          best.tokens().end());
  const auto scored = engine->ScoreAndWait(model, source, score);
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->targets(0).hypothesis().log_prob(), best.log_prob());
}

TEST(States, WrongOnesAreRefusedByName) {
  const auto model = Compile(Layer::kRwkv, v1::PRECISION_F32);
  const auto engine = StartEngine(kKey);
  v1::DecodeOptions options = Prompt({5, 6, 7});
  options.set_return_state(true);
  const std::string state = engine->DecodeAndWait(model, {}, options)->state();
  const auto refusal = [](const std::shared_ptr<const DecodeModel>& of, Engine& by,
                          const std::string& given) {
    const absl::Status status = by.DecodeAndWait(of, Behind(given), Prompt({5})).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("source.state"));
    return std::string(status.message());
  };
  using ::testing::HasSubstr;
  std::mt19937 random(4);
  for (int i = 0; i < 40; ++i) {
    std::string changed = state;
    changed[8 + random() % (state.size() - 8)] ^= static_cast<char>(1 << random() % 8);
    EXPECT_THAT(refusal(model, *engine, changed), HasSubstr("signature is wrong"));
  }
  EXPECT_THAT(refusal(model, *engine, state.substr(0, state.size() - 1)), HasSubstr("signature"));
  EXPECT_THAT(refusal(model, *engine, "bwstate1"), HasSubstr("no state"));
  EXPECT_THAT(refusal(model, *engine, ""), HasSubstr("no state"));
  EXPECT_THAT(refusal(model, *StartEngine(""), state), HasSubstr("another key"));
  EXPECT_THAT(refusal(Compile(Layer::kRwkv, v1::PRECISION_INT8), *engine, state),
              HasSubstr("numerics class"));
  EXPECT_THAT(refusal(Compile(Layer::kSsru, v1::PRECISION_F32), *engine, state),
              HasSubstr("another model"));
  const auto with_encoder = Compile(Layer::kLstmWithAttention, v1::PRECISION_F32);
  EXPECT_THAT(refusal(with_encoder, *engine, state), HasSubstr("has an encoder"));
  v1::Source source;
  source.mutable_ids()->add_ids(3);
  EXPECT_THAT(engine->DecodeAndWait(with_encoder, source, options).status().message(),
              HasSubstr("options.return_state"));
}

// Prompts with common beginnings: answers have the same bits, and most tokens are not read again.
TEST(PrefixCache, ChangesNoBit) {
  std::mt19937 random(8);
  for (const Layer layer : {Layer::kRwkv, Layer::kMixed}) {
    const auto model = Compile(layer, v1::PRECISION_INT8);
    std::vector<Call> calls;
    Tokens base = RandomTokens(random, 70);
    for (int i = 0; i < 24; ++i) {
      Tokens prompt(base.begin(), base.begin() + std::uniform_int_distribution<int>(0, 70)(random));
      const Tokens rest = RandomTokens(random, static_cast<int>(random() % 20));
      prompt.insert(prompt.end(), rest.begin(), rest.end());
      Call& call = calls.emplace_back();
      call.options = Prompt(prompt, 1 + i % 3);
      call.options.set_score_prefix(i % 2 == 0);
      call.options.set_top_tokens(i % 7 == 0 ? 2 : 0);
      call.options.set_repetition_penalty(i % 3 == 0 ? 1.3f : 1.0f);
      if (i % 4 == 0) {
        calls.push_back(call);  // the whole prompt once more
      }
    }
    const std::vector<std::string> expected = Answers(model, calls, 31, 1, 1);
    for (const size_t wave : {size_t{1}, size_t{5}}) {
      const auto engine = StartEngine(kKey, int64_t{1} << 26);
      EXPECT_EQ(Answers(model, calls, *engine, wave), expected);
      const EngineLoad load = engine->load();
      EXPECT_GT(load.cached_prefix_tokens, load.prefix_tokens / 3);
      EXPECT_GT(load.prefix_cache_bytes, 0);
      // Again, from behind a state: prefixes behind other tokens are other prefixes.
      v1::DecodeOptions options = Prompt({9, 9});
      options.set_return_state(true);
      const std::string state = engine->DecodeAndWait(model, {}, options)->state();
      std::vector<Call> behind = calls;
      for (Call& call : behind) {
        call.source = Behind(state);
      }
      EXPECT_EQ(Answers(model, behind, *engine, wave),
                Answers(model, behind, *StartEngine(kKey), wave));
    }
    const auto small = StartEngine(kKey, 40'000);
    EXPECT_EQ(Answers(model, calls, *small, 1), expected);
    EXPECT_LE(small->load().prefix_cache_bytes, 40'000);
  }
}

// A prompt that is kept as a whole is not read again, and its state can be returned.
TEST(PrefixCache, SaysWhatItKept) {
  const auto model = Compile(Layer::kMamba, v1::PRECISION_F32);
  const auto engine = StartEngine(kKey, int64_t{1} << 26);
  std::mt19937 random(1);
  v1::DecodeOptions options = Prompt(RandomTokens(random, 33));
  options.set_return_state(true);
  const auto first = engine->DecodeAndWait(model, {}, options);
  const auto second = engine->DecodeAndWait(model, {}, options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->cached_prefix_length(), 0);
  EXPECT_EQ(second->cached_prefix_length(), 33);
  EXPECT_EQ(first->state(), second->state());
}

std::shared_ptr<const PrefixCache::Entry> KeptOf(int64_t bytes) {
  auto entry = std::make_shared<PrefixCache::Entry>();
  entry->states.push_back(ops::Tensor::Zeros(ops::DType::kI8, {1, bytes}));
  return entry;
}

TEST(PrefixCache, FindsTheLongestBeginningAndWhereOthersBranchOff) {
  PrefixCache cache(int64_t{1} << 20);
  Tokens long_one(30);
  for (int i = 0; i < 30; ++i) {
    long_one[static_cast<size_t>(i)] = i;
  }
  const auto first = [&](size_t count) {
    return Tokens(long_one.begin(), long_one.begin() + count);
  };
  const auto short_entry = KeptOf(10);
  const auto long_entry = KeptOf(10);
  cache.Add("a", first(5), short_entry);
  cache.Add("a", first(12), long_entry);
  Tokens other = first(20);
  other.push_back(1000);
  cache.Add("a", other, KeptOf(10));
  EXPECT_EQ(cache.Find("b", long_one).entry, nullptr);
  PrefixCache::Found found = cache.Find("a", long_one);
  EXPECT_EQ(found.entry, long_entry);
  EXPECT_EQ(found.branch, 19u);  // where `other` went another way
  cache.Add("a", long_one, KeptOf(10));
  Tokens third = first(25);
  third.push_back(-5);
  found = cache.Find("a", third);
  EXPECT_EQ(found.entry, long_entry);
  EXPECT_EQ(found.branch, 24u);
  found = cache.Find("a", first(7));
  EXPECT_EQ(found.entry, short_entry);
  EXPECT_EQ(found.branch, 0u);
  EXPECT_EQ(cache.num_found(), 11 + 11 + 4);
}

TEST(PrefixCache, TheOldestLeaveFirst) {
  PrefixCache cache(3 * 1700);
  const auto is_kept = [&](int32_t token) {
    return cache.Find("a", {token, token, 7}).entry != nullptr;
  };
  for (const int32_t token : {1, 2, 3}) {
    cache.Add("a", {token, token}, KeptOf(1000));
  }
  EXPECT_TRUE(is_kept(1));
  cache.Add("a", {4, 4}, KeptOf(1000));
  EXPECT_FALSE(is_kept(2));
  EXPECT_TRUE(is_kept(1) && is_kept(3) && is_kept(4));
  cache.Add("a", {5, 5}, KeptOf(100'000));  // more than there may be
  EXPECT_TRUE(is_kept(4) && !is_kept(5));
  cache.Add("b", {6, 6}, KeptOf(4000));
  EXPECT_FALSE(is_kept(1) || is_kept(3) || is_kept(4));
  EXPECT_LE(cache.num_bytes(), 3 * 1700);
}

}  // namespace
}  // namespace beamwright::engine
