// Encoders that read more than the source: ids of a factor that is as long, a vector of numbers, a
// choice with a default. Answers are those of a model whose ids alone say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/synchronization/blocking_counter.h"
#include "engine/model/decode_model.h"
#include "include/beamwright/engine.h"
#include "tests/engine/fused_bundle.h"
#include "tests/engine/table_bundle.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::GraphBuilder;

constexpr int64_t kFactors = 4;
constexpr int64_t kStyles = 3;

// The state starts at the sum of source + 10 factor over all positions, of 100 shift[0] + shift[1],
// and of 1000 style.
ops::Graph EncoderGraph() {
  GraphBuilder graph;
  const auto sum = [&](GraphBuilder::Value x) {
    return graph.Add("ReduceSum", {x, graph.Ints({1})}, {{"keep_dims", false}});
  };
  const auto table = [&](std::vector<int64_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return graph.Constant(ops::Tensor::Of<int64_t>({count}, values));
  };
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto factor = graph.Parameter("factor", ops::DType::kI64, {-1, -1});
  const auto shift = graph.Parameter("shift", ops::DType::kF32, {-1, 2});
  const auto style = graph.Parameter("style", ops::DType::kI32, {-1});
  const auto tens = graph.Add("Gather", {table({0, 10, 20, 30}), factor, graph.Int(0)});
  const auto thousands = graph.Add("Gather", {table({0, 1000, 2000}), style, graph.Int(0)});
  const auto weights = graph.Constant(ops::Tensor::Of<float>({2}, std::vector<float>{100, 1}));
  const auto number = graph.Add("Convert", {sum(graph.Add("Multiply", {shift, weights}))},
                                {{"destination_type", std::string("i64")}});
  auto total = graph.Add("Add", {sum(graph.Add("Add", {source, tens})), number});
  total = graph.Add("Add", {total, thousands});
  graph.Result("first_state", graph.Add("FloorMod", {total, graph.Int(engine_testing::kStates)}));
  return graph.Build();
}

bundle::Bundle FurtherBundle() {
  bundle::Bundle bundle = engine_testing::TableBundle(engine_testing::RandomTable(8), {});
  v1::EncoderConfig& encoder = *bundle.config.mutable_encoder();
  encoder.set_input("source");
  encoder.add_further_inputs()->set_input("factor");
  encoder.add_further_inputs()->set_input("shift");
  encoder.add_further_inputs()->set_input("style");
  encoder.mutable_further_inputs(2)->set_constant(2);
  bundle.encoder = EncoderGraph();
  return bundle;
}

template <typename T>
v1::Tensor Tensor(const std::string& dtype, const std::vector<int64_t>& shape,
                  const std::vector<T>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  tensor.set_data(values.data(), values.size() * sizeof(T));
  return tensor;
}

class FurtherInputsTest : public ::testing::Test {
 protected:
  FurtherInputsTest()
      : model_(*DecodeModel::Compile(FurtherBundle())),
        ids_(
            *DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(8), {}))),
        engine_(*Engine::Start({})) {}

  std::string Error(const v1::Source& source) {
    return std::string(engine_->DecodeAndWait(model_, source, {}).status().message());
  }

  std::shared_ptr<const DecodeModel> model_;
  std::shared_ptr<const DecodeModel> ids_;  // reads ids alone
  std::unique_ptr<Engine> engine_;
};

// A source and the ids that say the same to the other model.
struct Pair {
  v1::Source source;
  v1::Source ids;
};

Pair RandomPair(std::mt19937& random) {
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  Pair pair;
  std::vector<int64_t> factors;
  int64_t sum = 0;
  for (int64_t i = 0, length = 1 + below(3); i < length; ++i) {
    const int64_t id = below(50);
    pair.source.mutable_ids()->add_ids(static_cast<int32_t>(id));
    factors.push_back(below(kFactors));
    sum += id + 10 * factors.back();
  }
  const std::vector<float> shift = {static_cast<float>(below(5)), static_cast<float>(below(9))};
  sum += 100 * static_cast<int64_t>(shift[0]) + static_cast<int64_t>(shift[1]);
  auto& further = *pair.source.mutable_further_inputs();
  further["factor"] = Tensor("i64", {static_cast<int64_t>(factors.size())}, factors);
  further["shift"] = Tensor("f32", {2}, shift);
  int64_t style = 2;
  if (below(2) == 0) {
    style = below(kStyles);
    further["style"] = Tensor<int32_t>("i32", {}, {static_cast<int32_t>(style)});
  }
  sum = (sum + 1000 * style) % engine_testing::kStates;
  for (; sum > 49; sum -= 49) {
    pair.ids.mutable_ids()->add_ids(49);
  }
  pair.ids.mutable_ids()->add_ids(static_cast<int32_t>(sum));
  return pair;
}

TEST_F(FurtherInputsTest, AreEncodedWithTheSource) {
  EXPECT_EQ(model_->encodes_apart(), "");
  constexpr size_t kTrials = 60;
  std::mt19937 random(9);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kTrials; ++i) {
    pairs.push_back(RandomPair(random));
  }
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_n_best(3);
  options.set_max_length(8);  // by default it follows from the length of the source
  absl::BlockingCounter left(kTrials);
  std::vector<absl::StatusOr<v1::Decoded>> got(kTrials, absl::InternalError("not answered"));
  for (size_t i = 0; i < kTrials; ++i) {  // all at once, so that they share encoder runs
    engine_->Decode(model_, pairs[i].source, options, {}, [&, i](auto decoded) {
      got[i] = std::move(decoded);
      left.DecrementCount();
    });
  }
  left.Wait();
  for (size_t i = 0; i < kTrials; ++i) {
    const auto want = engine_->DecodeAndWait(ids_, pairs[i].ids, options);
    ASSERT_TRUE(want.ok() && got[i].ok()) << got[i].status();
    ASSERT_EQ(got[i]->hypotheses_size(), want->hypotheses_size());
    for (int h = 0; h < want->hypotheses_size(); ++h) {
      EXPECT_THAT(got[i]->hypotheses(h).tokens(),
                  ::testing::ElementsAreArray(want->hypotheses(h).tokens()));
      EXPECT_EQ(got[i]->hypotheses(h).score(), want->hypotheses(h).score());
    }
  }
}

TEST_F(FurtherInputsTest, AreDescribed) {
  const v1::ModelDescription description = model_->Describe();
  ASSERT_EQ(description.further_inputs_size(), 3);
  EXPECT_EQ(description.further_inputs(1).name(), "shift");
  EXPECT_THAT(description.further_inputs(1).shape(), ::testing::ElementsAre(2));
  EXPECT_FALSE(description.further_inputs(1).has_default());
  EXPECT_TRUE(description.further_inputs(2).has_default());
}

TEST_F(FurtherInputsTest, AllThatIsWrongIsToldAtOnce) {
  std::mt19937 random(10);
  v1::Source source = RandomPair(random).source;
  source.clear_further_inputs();
  EXPECT_THAT(Error(source), AllOf(HasSubstr("source.further_inputs['factor']: is missing; the "
                                             "encoder takes 'factor' i64[?]"),
                                   HasSubstr("source.further_inputs['shift']: is missing")));
  source.mutable_ids()->clear_ids();
  source.mutable_ids()->add_ids(1);
  source.mutable_ids()->add_ids(2);
  auto& further = *source.mutable_further_inputs();
  further["factor"] = Tensor<int64_t>("i64", {3}, {0, 0, 0});
  further["shift"] = Tensor<float>("f32", {3}, {0, 0, 0});
  further["style"] = Tensor<int32_t>("i32", {}, {3});
  further["mood"] = Tensor<int32_t>("i32", {}, {3});
  EXPECT_THAT(
      Error(source),
      AllOf(HasSubstr("['factor'].shape: [3]; the first axis must be as long as the source: 2"),
            HasSubstr("['shift'].shape: [3]; the encoder takes 'shift' f32[2]"),
            HasSubstr("['style'].data: element 0 is 3, outside [0, 3)"),
            HasSubstr("it takes 'factor', 'shift', 'style'")));
  further.erase("mood");
  further["factor"] = Tensor<int32_t>("i32", {2}, {0, 0});
  EXPECT_THAT(Error(source), HasSubstr("['factor'].dtype: i32; the encoder takes 'factor' i64[?]"));
}

TEST_F(FurtherInputsTest, OfAModelThatTakesNone) {
  v1::Source source;
  source.mutable_ids()->add_ids(1);
  (*source.mutable_further_inputs())["shift"] = Tensor<float>("f32", {2}, {0, 0});
  const auto decoded = engine_->DecodeAndWait(ids_, source, {});
  EXPECT_THAT(decoded.status().message(), HasSubstr("it takes none"));
}

TEST(FurtherInputs, OfABundleMustBeTheGraphs) {
  const auto error = [](const auto& change) {
    bundle::Bundle bundle = FurtherBundle();
    change(*bundle.config.mutable_encoder());
    return std::string(DecodeModel::Compile(std::move(bundle)).status().message());
  };
  EXPECT_THAT(error([](v1::EncoderConfig& encoder) { encoder.clear_further_inputs(); }),
              AllOf(HasSubstr("'factor' is read by the encoder, and nothing says what fills it"),
                    HasSubstr("further_inputs { input: \"shift\" }"), HasSubstr("'style'")));
  EXPECT_THAT(error([](v1::EncoderConfig& encoder) {
                encoder.mutable_further_inputs(0)->set_input("facto");
              }),
              AllOf(HasSubstr("no input 'facto'"), HasSubstr("'factor' is read by the encoder")));
}

// A member's encoder: its state starts at the sum of source + 10 factor, and of 3 mood.
ops::Graph MemberEncoder(ops::DType factor_type) {
  GraphBuilder graph;
  const auto source = graph.Parameter("source", ops::DType::kI64, {-1, -1});
  const auto factor = graph.Parameter("factor", factor_type, {-1, -1});
  const auto mood = graph.Parameter("mood", ops::DType::kI64, {-1});
  const auto wide = graph.Add("Convert", {factor}, {{"destination_type", std::string("i64")}});
  const auto tens = graph.Add("Multiply", {wide, graph.Int(10)});
  const auto sum = graph.Add("ReduceSum", {graph.Add("Add", {source, tens}), graph.Ints({1})},
                             {{"keep_dims", false}});
  const auto total = graph.Add("Add", {sum, graph.Add("Multiply", {mood, graph.Int(3)})});
  graph.Result("first_state", graph.Add("FloorMod", {total, graph.Int(engine_testing::kStates)}));
  return graph.Build();
}

bundle::Bundle EnsembleBundle(ops::DType factor_type = ops::DType::kI64) {
  bundle::Bundle bundle = FurtherBundle();
  v1::EnsembleMember& member = *bundle.config.mutable_ensemble()->add_members();
  *member.mutable_decoder() = bundle.config.decoder();
  member.mutable_encoder()->set_graph("member.onnx");
  member.mutable_encoder()->set_input("source");
  member.mutable_encoder()->add_further_inputs()->set_input("mood");
  member.mutable_encoder()->add_further_inputs()->set_input("factor");
  bundle.members.push_back(
      {MemberEncoder(factor_type), engine_testing::StepGraph(engine_testing::MemberTable(0), {})});
  return bundle;
}

// Log-probabilities of the first token: the mean of both, whose states start differently.
std::vector<double> FirstLine(int64_t own, int64_t member) {
  const auto a = engine_testing::Line(engine_testing::RandomTable(8), own, {});
  const auto b = engine_testing::Line(engine_testing::MemberTable(0), member, {});
  std::vector<double> line;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    line.push_back((a[i] + b[i]) / 2);
    sum += std::exp(line.back());
  }
  for (double& value : line) {
    value -= std::log(sum);
  }
  return line;
}

TEST_F(FurtherInputsTest, MembersOfAnEnsembleHaveTheirOwnAndShareByName) {
  const auto model = DecodeModel::Compile(EnsembleBundle());
  ASSERT_TRUE(model.ok()) << model.status();
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_n_best(3);
  options.set_max_length(3);
  constexpr size_t kTrials = 20;
  absl::BlockingCounter left(kTrials);
  std::vector<absl::StatusOr<v1::Decoded>> got(kTrials, absl::InternalError("not answered"));
  std::vector<std::vector<double>> want;
  for (size_t i = 0; i < kTrials; ++i) {  // all at once, so that they share encoder runs
    const auto number = static_cast<int64_t>(i);
    v1::Source source;
    source.mutable_ids()->add_ids(static_cast<int32_t>(7 * i % 50));
    source.mutable_ids()->add_ids(2);
    auto& further = *source.mutable_further_inputs();
    further["factor"] = Tensor<int64_t>("i64", {2}, {number % 4, 1});
    further["shift"] = Tensor<float>("f32", {2}, {1, static_cast<float>(i)});
    further["mood"] = Tensor<int64_t>("i64", {}, {number});
    const int64_t shared = 7 * number % 50 + 2 + 10 * (number % 4 + 1);
    want.push_back(FirstLine((shared + 100 + number + 2000) % engine_testing::kStates,
                             (shared + 3 * number) % engine_testing::kStates));
    engine_->Decode(*model, source, options, {}, [&, i](auto decoded) {
      got[i] = std::move(decoded);
      left.DecrementCount();
    });
  }
  left.Wait();
  for (size_t i = 0; i < kTrials; ++i) {
    ASSERT_TRUE(got[i].ok()) << got[i].status();
    for (const v1::Hypothesis& hypothesis : got[i]->hypotheses()) {
      EXPECT_NEAR(hypothesis.token_log_probs(0), want[i][static_cast<size_t>(hypothesis.tokens(0))],
                  1e-5);
    }
  }

  const v1::ModelDescription description = (*model)->Describe();
  ASSERT_EQ(description.further_inputs_size(), 4);  // factor once
  EXPECT_EQ(description.further_inputs(3).name(), "mood");
  v1::Source source;
  source.mutable_ids()->add_ids(1);
  EXPECT_THAT(std::string(engine_->DecodeAndWait(*model, source, {}).status().message()),
              AllOf(HasSubstr("['factor']: is missing"), HasSubstr("['mood']: is missing")));
}

TEST(FurtherInputs, OfOneNameMustBeOneTensor) {
  EXPECT_THAT(
      std::string(DecodeModel::Compile(EnsembleBundle(ops::DType::kI32)).status().message()),
      AllOf(HasSubstr("ensemble.members[0]: member.onnx: encoder.further_inputs: 'factor' "
                      "is i32[?, ?], and another encoder's is i64[?, ?]"),
            HasSubstr("give one of the graphs another name for its input")));
}

}  // namespace
}  // namespace beamwright::engine
