// What precision `auto` takes, and when a model is close enough to itself in f32.
#include "engine/auto_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "engine/model/decode_model.h"
#include "engine/model/parts.h"
#include "include/beamwright/engine.h"
#include "ops/base/vector_isa.h"
#include "ops/tensor/tensor_memory.h"
#include "tests/engine/recurrent_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::RecurrentBundle;
using engine_testing::RecurrentOptions;
using engine_testing::TableBundle;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using TrialAnswers = std::vector<std::unique_ptr<v1::Decoded>>;

// `count` answers of two hypotheses, all alike.
TrialAnswers EqualAnswers(int count) {
  TrialAnswers answers;
  for (int i = 0; i < count; ++i) {
    answers.push_back(std::make_unique<v1::Decoded>());
    for (const int token : {4, 5}) {
      v1::Hypothesis& hypothesis = *answers.back()->add_hypotheses();
      hypothesis.add_tokens(token);
      hypothesis.set_score(-token);
    }
  }
  return answers;
}

TEST(AutoPrecision, OneBestInTwoHundredTenListsAndATenthOfANatAreClose) {
  const TrialAnswers exact = EqualAnswers(200);
  TrialAnswers answers = EqualAnswers(200);
  EXPECT_TRUE(CompareAnswers(exact, answers).IsClose());
  for (size_t i = 0; i < 9; ++i) {
    answers[i]->mutable_hypotheses(1)->set_tokens(0, 6);
  }
  answers[9]->mutable_hypotheses(0)->set_tokens(0, 6);
  answers[20]->mutable_hypotheses(0)->set_score(-4.09375);
  PrecisionTrial trial = CompareAnswers(exact, answers);
  EXPECT_EQ(trial.ToString(),
            "1 of 200 best hypotheses and 10 lists differ, scores by up to 0.0938");
  EXPECT_TRUE(trial.IsClose());
  trial.most_shift = 0.09;
  EXPECT_FALSE(trial.IsClose()) << "short requests may not move so far";
  answers[20]->mutable_hypotheses(0)->set_score(-4.11);
  EXPECT_FALSE(CompareAnswers(exact, answers).IsClose());
  answers[20]->mutable_hypotheses(0)->set_score(-4);
  answers[10]->mutable_hypotheses(1)->set_tokens(0, 6);
  EXPECT_FALSE(CompareAnswers(exact, answers).IsClose()) << "11 lists";
  answers = EqualAnswers(200);
  answers[0] = nullptr;
  EXPECT_TRUE(CompareAnswers(exact, answers).IsClose());
  answers[1]->clear_hypotheses();
  trial = CompareAnswers(exact, answers);
  EXPECT_EQ(trial.other_best, 2) << "what fails is another answer";
  EXPECT_FALSE(trial.IsClose());
  EXPECT_FALSE(CompareAnswers({}, {}).IsClose()) << "nothing was tried";
  TrialAnswers failed(1);
  EXPECT_EQ(CompareAnswers(failed, EqualAnswers(1)).requests, 0);
}

// What is certain after some of the requests is known before the others are sent.
TEST(AutoPrecision, ATrialIsOverWhenItIsDecided) {
  const TrialAnswers exact = EqualAnswers(20);
  TrialAnswers answers = EqualAnswers(20);
  answers[3]->mutable_hypotheses(0)->set_tokens(0, 6);
  const PrecisionTrial one = CompareAnswers(exact, answers);
  EXPECT_FALSE(one.IsClose());
  EXPECT_TRUE(one.IsClose(200));
  EXPECT_FALSE(one.IsClose(199));
  EXPECT_TRUE(PrecisionTrial().IsClose(0)) << "nothing is decided yet";
}

std::shared_ptr<const DecodeModel> CompileAs(const bundle::Bundle& bundle,
                                             v1::Precision precision) {
  CompileOptions options;
  options.precision = precision;
  auto model = DecodeModel::Compile(bundle, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(AutoPrecision, IsInt8WhereAnswersStayWhatTheyAre) {
  if (CurrentVectorIsa() == VectorIsa::kPlain) {
    GTEST_SKIP() << "auto is f32 on this machine";
  }
  const auto model = CompileAs(TableBundle(RandomTable(3), {}), v1::PRECISION_AUTO);
  EXPECT_THAT(model->numerics(), StartsWith("int8;"));
  EXPECT_EQ(model->precision_note(),
            "tried with 200 made-up requests; int8: 0 of 200 best hypotheses and 0 lists differ, "
            "scores by up to 0; int8 is taken");
}

// A small network whose scores hang on every bit: whatever is left out, int8 is not close.
TEST(AutoPrecision, FallsBackWhereAnswersMove) {
  if (CurrentVectorIsa() == VectorIsa::kPlain) {
    GTEST_SKIP() << "auto is f32 on this machine";
  }
  bundle::Bundle bundle = RecurrentBundle(RecurrentOptions()).Build();
  const auto model = CompileAs(bundle, v1::PRECISION_AUTO);
  EXPECT_FALSE(model->numerics().starts_with("int8;")) << model->precision_note();
  EXPECT_THAT(model->precision_note(), HasSubstr("200 made-up requests; int8: "));
  EXPECT_THAT(model->precision_note(),
              EndsWith(absl::StrCat("; ", model->parts().precision.name, " is taken")));
  EXPECT_EQ(CompileAs(bundle, v1::PRECISION_AUTO)->precision_note(), model->precision_note());
  EXPECT_EQ(CompileAs(bundle, v1::PRECISION_INT8)->precision_note(), "");

  bundle.golden =
      "{\"source\": {\"ids\": {\"ids\": [3, 4, 5]}}, \"options\": {\"beam_size\": 3}}\n";
  EXPECT_THAT(CompileAs(bundle, v1::PRECISION_AUTO)->precision_note(),
              HasSubstr("tried with 1 golden requests; int8: "));
  bundle.golden = "{}\n";
  CompileOptions options;
  options.precision = v1::PRECISION_AUTO;
  EXPECT_EQ(DecodeModel::Compile(bundle, options).status().message(),
            "golden.jsonl: line 1: has no field 'source'");
}

TEST(AutoPrecision, ABundleDoesNotAskForWhatAutoChooses) {
  bundle::Bundle bundle = RecurrentBundle(RecurrentOptions()).Build();
  const auto refusal = [&bundle](v1::Precision precision) {
    bundle.config.set_precision(precision);
    return std::string(DecodeModel::Compile(bundle, {}).status().message());
  };
  EXPECT_EQ(refusal(v1::PRECISION_INT8), "");
  EXPECT_EQ(refusal(v1::PRECISION_INT8_CORE),
            "precision: 'int8-core' is chosen by auto, where CPU and answers allow it; ask for "
            "auto or int8");
  EXPECT_THAT(refusal(v1::PRECISION_BF16_DOT), EndsWith("ask for auto or bf16"));
  EXPECT_THAT(refusal(v1::PRECISION_BF16_AMX), EndsWith("ask for auto or bf16"));
  EXPECT_EQ(*ParsePrecision("int8"), v1::PRECISION_INT8);
  EXPECT_FALSE(ParsePrecision("int8-core").ok());
  EXPECT_EQ(*ParseAnyPrecision("int8-core"), v1::PRECISION_INT8_CORE);
  EXPECT_EQ(ParsePrecision("fp16").status().message(),
            "precision: 'fp16' is not one of f32, bf16, int8 and auto");
}

TEST(AutoPrecision, TheCoreLeavesEncoderAndVocabularyInF32) {
  const bundle::Bundle bundle = RecurrentBundle(RecurrentOptions()).Build();
  const auto core = CompileAs(bundle, v1::PRECISION_INT8_CORE);
  EXPECT_THAT(core->numerics(), StartsWith("int8-core;"));
  const PartPrecisions& parts = core->parts().precision;
  EXPECT_EQ(parts.encoder, Precision::kF32);
  EXPECT_EQ(parts.steps, Precision::kInt8);
  EXPECT_EQ(parts.projection, Precision::kF32);
  // The bits are those of neither of the two.
  const auto engine = *Engine::Start({1, 64, 100});
  v1::Source source;
  for (const int id : {3, 14, 15}) {
    source.mutable_ids()->add_ids(id);
  }
  std::vector<double> scores;
  for (const auto precision : {v1::PRECISION_F32, v1::PRECISION_INT8, v1::PRECISION_INT8_CORE}) {
    const auto decoded = engine->DecodeAndWait(CompileAs(bundle, precision), source, {});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    scores.push_back(decoded->hypotheses(0).log_prob());
  }
  EXPECT_NE(scores[0], scores[2]);
  EXPECT_NE(scores[1], scores[2]);
}

// Two threads pack them: what one has packed must not be forgotten while the other reads it.
TEST(AutoPrecision, WeightsOfAFileStayWhileTwoPrecisionsAreCompiled) {
  ops::DeferredScope scope;
  RecurrentOptions options;
  options.width = 64;
  options.vocabulary = 60000;  // 46 MB: more than may stay otherwise
  bundle::Bundle bundle = RecurrentBundle(options).Build();
  std::atomic<int> read = 0;
  int weights = 0;
  for (ops::Node& node : bundle.decoder.nodes) {
    if (node.op != "Constant" || !ops::IsDeferred(node.constant.num_bytes())) {
      continue;
    }
    const ops::Tensor values = node.constant;
    auto deferred =
        ops::MakeConstant(values.dtype(), values.shape(), [values, &read](std::byte* out) {
          std::copy_n(values.bytes(), values.num_bytes(), out);
          ++read;
          return absl::OkStatus();
        });
    ASSERT_TRUE(deferred.ok()) << deferred.status();
    node.constant = *std::move(deferred);
    ++weights;
  }
  ASSERT_GE(weights, 2);
  const auto model = CompileAuto(std::move(bundle), CompileOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(read, weights) << "each once";
  EXPECT_TRUE(scope.Finish().ok());
}

}  // namespace
}  // namespace beamwright::engine
