// Tokens and sources that graphs take one-hot, as Keras' examples of sequence-to-sequence learning
// have them, are served as ids: the answers are those of the same model with ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/model/decode_model.h"
#include "include/beamwright/engine.h"
#include "tests/engine/table_bundle.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine {
namespace {

constexpr int64_t kSources = 50;

using testing_support::GraphBuilder;

// The ids that `one_hot` [.., count] stands for.
GraphBuilder::Value Ids(GraphBuilder& graph, GraphBuilder::Value one_hot, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const auto column = graph.Constant(ops::Tensor::Of<float>({count, 1}, numbers));
  const auto product = graph.Add("MatMul", {one_hot, column});
  const auto ids = graph.Add("Squeeze", {product, graph.Ints({-1})});
  return graph.Add("Convert", {ids}, {{"destination_type", std::string("i64")}});
}

bundle::Bundle OneHotBundle(const std::vector<float>& table) {
  using engine_testing::kStates;
  using engine_testing::kVocabulary;
  bundle::Bundle bundle = engine_testing::TableBundle(table, {});
  GraphBuilder encoder;
  const auto source = encoder.Parameter("source", ops::DType::kF32, {-1, -1, kSources});
  const auto sum = encoder.Add("ReduceSum", {Ids(encoder, source, kSources), encoder.Ints({1})},
                               {{"keep_dims", false}});
  encoder.Result("first_state", encoder.Add("FloorMod", {sum, encoder.Int(kStates)}));
  bundle.encoder = encoder.Build();
  GraphBuilder step;
  const auto token = step.Parameter("token", ops::DType::kF32, {-1, kVocabulary});
  const auto state = step.Parameter("state", ops::DType::kI64, {-1});
  const auto id = Ids(step, token, kVocabulary);
  const auto next =
      engine_testing::NextStates(step, state, step.Add("Multiply", {id, step.Int(7)}));
  const auto lines = step.Constant(ops::Tensor::Of<float>({kStates, kVocabulary}, table));
  step.Result("logits", step.Add("Gather", {lines, next, step.Int(0)}));
  step.Result("next_state", next);
  bundle.decoder = step.Build();
  return bundle;
}

void ExpectSameAnswers(const absl::StatusOr<v1::Decoded>& got,
                       const absl::StatusOr<v1::Decoded>& want) {
  ASSERT_TRUE(want.ok() && got.ok()) << got.status();
  ASSERT_EQ(got->hypotheses_size(), want->hypotheses_size());
  for (int i = 0; i < got->hypotheses_size(); ++i) {
    EXPECT_THAT(got->hypotheses(i).tokens(),
                ::testing::ElementsAreArray(want->hypotheses(i).tokens()));
    EXPECT_EQ(got->hypotheses(i).score(), want->hypotheses(i).score());
  }
}

TEST(OneHot, AnswersAreThoseOfIds) {
  const std::vector<float> table = engine_testing::RandomTable(8);
  const auto ids = DecodeModel::Compile(engine_testing::TableBundle(table, {}));
  const auto one_hot = DecodeModel::Compile(OneHotBundle(table));
  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_TRUE(one_hot.ok()) << one_hot.status();
  EXPECT_EQ((*one_hot)->Describe().encoder_input().dtype(), "i64");
  EXPECT_TRUE((*one_hot)->Describe().step_batching().together());
  const auto engine = Engine::Start({});
  ASSERT_TRUE(engine.ok());
  std::mt19937 random(8);
  for (int trial = 0; trial < 20; ++trial) {
    v1::Source source;
    for (unsigned i = 0; i < 1 + random() % 9; ++i) {
      source.mutable_ids()->add_ids(static_cast<int32_t>(random() % kSources));
    }
    v1::DecodeOptions options;
    options.set_beam_size(1 + static_cast<int>(random() % 6));
    options.set_n_best(options.beam_size());
    ExpectSameAnswers((*engine)->DecodeAndWait(*one_hot, source, options),
                      (*engine)->DecodeAndWait(*ids, source, options));
  }
}

// A decoder that begins with a vector of zeros, as inference models of Keras do: in the place of a
// token's number the table's model gets the sum of an empty row, that of token 0.
TEST(OneHot, ABeginMayBeAVectorOfZeros) {
  const std::vector<float> table = engine_testing::RandomTable(9);
  bundle::Bundle zeros = OneHotBundle(table);
  v1::TextConfig& target = *zeros.config.mutable_target();
  target.set_form(v1::TEXT_FORM_WHITESPACE);
  target.clear_size();
  target.set_vocabulary("target.vocab");
  target.set_begin_token("<zeros>");
  target.mutable_end_tokens()->Clear();
  target.add_end_tokens("t1");
  std::string vocabulary;
  for (int token = 0; token < engine_testing::kVocabulary; ++token) {
    vocabulary += absl::StrCat("t", token, "\n");
  }
  auto codec = bundle::TextCodec::Create(target, vocabulary + "<zeros>\n");
  ASSERT_TRUE(codec.ok()) << codec.status();
  zeros.target = *std::move(codec);
  const auto ids = DecodeModel::Compile(engine_testing::TableBundle(table, {}));  // begins with 0
  const auto one_hot = DecodeModel::Compile(std::move(zeros));
  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_TRUE(one_hot.ok()) << one_hot.status();
  EXPECT_TRUE((*one_hot)->Describe().step_batching().together());
  const auto engine = Engine::Start({});
  ASSERT_TRUE(engine.ok());
  for (int id = 0; id < 20; ++id) {
    v1::Source source;
    source.mutable_ids()->add_ids(id);
    v1::DecodeOptions options;
    options.set_beam_size(6);
    options.set_n_best(6);
    ExpectSameAnswers((*engine)->DecodeAndWait(*one_hot, source, options),
                      (*engine)->DecodeAndWait(*ids, source, options));
  }
}

}  // namespace
}  // namespace beamwright::engine
