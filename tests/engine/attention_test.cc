// Attention through the engine: alignments, weights and the coverage penalty, alone and among
// sources of other lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/synchronization/blocking_counter.h"
#include "include/beamwright/engine.h"
#include "tests/engine/attention_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::AttentionBundle;
using engine_testing::ExpectedAttention;
using engine_testing::RandomTable;
using ::testing::HasSubstr;

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

std::shared_ptr<const DecodeModel> Compiled(bundle::Bundle bundle) {
  auto compiled = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

class AttentionTest : public ::testing::Test {
 protected:
  const std::vector<float> table_ = RandomTable(31);
  const std::shared_ptr<const DecodeModel> model_ = Compiled(AttentionBundle(table_));
  const std::unique_ptr<Engine> engine_ = *Engine::Start({1, 512, 1000});

  static v1::DecodeOptions Options(v1::Attention attention) {
    v1::DecodeOptions options;
    options.set_beam_size(4);
    options.set_n_best(4);
    options.set_max_length(9);
    options.set_attention(attention);
    return options;
  }
};

TEST_F(AttentionTest, WeightsAreThoseOfEachHypothesisOwnPath) {
  for (const std::vector<int32_t>& source :
       {std::vector<int32_t>{3, 9, 4}, {5}, {7, 7, 2, 7, 1, 0, 8}}) {
    const auto answer = engine_->DecodeAndWait(model_, Ids(source), Options(v1::ATTENTION_SOFT));
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->hypotheses_size(), 4);
    for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
      const auto expected =
          ExpectedAttention(source, {hypothesis.tokens().begin(), hypothesis.tokens().end()});
      ASSERT_EQ(hypothesis.attention().rows(), hypothesis.tokens_size());
      ASSERT_EQ(hypothesis.attention().columns(), static_cast<int>(source.size()));
      ASSERT_EQ(hypothesis.alignment_size(), hypothesis.tokens_size());
      for (size_t t = 0; t < expected.size(); ++t) {
        for (size_t i = 0; i < source.size(); ++i) {
          EXPECT_NEAR(hypothesis.attention().values(static_cast<int>(t * source.size() + i)),
                      expected[t][i], 1e-6);
        }
        // Of equal weights the first: the source has several 7s.
        EXPECT_EQ(hypothesis.alignment(static_cast<int>(t)),
                  std::max_element(expected[t].begin(), expected[t].end()) - expected[t].begin());
      }
    }
  }
}

TEST_F(AttentionTest, HardGivesPositionsWithoutWeightsAndNoneNothing) {
  auto answer = engine_->DecodeAndWait(model_, Ids({3, 9, 4}), Options(v1::ATTENTION_HARD));
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->hypotheses(0).has_attention());
  EXPECT_EQ(answer->hypotheses(0).alignment_size(), answer->hypotheses(0).tokens_size());
  answer = engine_->DecodeAndWait(model_, Ids({3, 9, 4}), Options(v1::ATTENTION_NONE));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->hypotheses(0).alignment_size(), 0);
}

// Heads on a separate axis, or joined with the rows' axis.
TEST_F(AttentionTest, HeadsAreAveraged) {
  for (const bool in_rows : {false, true}) {
    const auto model =
        Compiled(AttentionBundle(table_, {.two_heads = true, .heads_in_rows = in_rows}));
    const std::vector<int32_t> source = {2, 0, 3};
    const auto answer = engine_->DecodeAndWait(model, Ids(source), Options(v1::ATTENTION_SOFT));
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const v1::Hypothesis& one : answer->hypotheses()) {
      ASSERT_EQ(one.attention().columns(), 3);
      const auto first = ExpectedAttention(source, {one.tokens().begin(), one.tokens().end()});
      for (size_t t = 0; t < first.size(); ++t) {
        double sum = 0;
        for (const double weight : first[t]) {
          sum += 1 / weight;
        }
        for (size_t i = 0; i < 3; ++i) {
          EXPECT_NEAR(one.attention().values(static_cast<int>(t * 3 + i)),
                      (first[t][i] + 1 / first[t][i] / sum) / 2, 1e-6);
        }
      }
    }
  }
}

// Layers behind the loop over the target become part of its step, the attention's too.
TEST_F(AttentionTest, AnExportOverTheWholeTargetGivesTheSame) {
  for (const auto form : {engine_testing::Form::kBatchFirst, engine_testing::Form::kTimeFirst}) {
    const auto model = Compiled(AttentionBundle(table_, {.form = form}));
    for (const std::vector<int32_t>& source : {std::vector<int32_t>{3, 9, 4}, {5}}) {
      const auto step = engine_->DecodeAndWait(model_, Ids(source), Options(v1::ATTENTION_SOFT));
      const auto whole = engine_->DecodeAndWait(model, Ids(source), Options(v1::ATTENTION_SOFT));
      ASSERT_TRUE(whole.ok()) << whole.status();
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(whole->hypotheses(i).SerializeAsString(),
                  step->hypotheses(i).SerializeAsString());
      }
    }
  }
}

TEST_F(AttentionTest, CoverageIsThatOfTheWeightsShown) {
  v1::DecodeOptions options = Options(v1::ATTENTION_SOFT);
  options.set_coverage_penalty(0.75f);
  options.set_length_penalty(v1::LENGTH_PENALTY_POW);
  const auto answer = engine_->DecodeAndWait(model_, Ids({3, 9, 4, 0, 1}), options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
    double penalty = 0;
    for (int i = 0; i < 5; ++i) {
      double got = 0;
      for (int t = 0; t < hypothesis.tokens_size(); ++t) {
        got += static_cast<double>(hypothesis.attention().values(t * 5 + i));
      }
      penalty += 0.75 * std::log(std::min(std::max(got, 1e-10), 1.0));
    }
    EXPECT_LT(hypothesis.coverage(), 0);
    EXPECT_NEAR(hypothesis.coverage(), penalty, 1e-9);
    EXPECT_DOUBLE_EQ(hypothesis.score(),
                     hypothesis.log_prob() / hypothesis.tokens_size() + hypothesis.coverage());
  }
}

// Sources of many lengths in the same steps, with one thread and with two: the same bits.
TEST_F(AttentionTest, NeighboursOfOtherLengthsChangeNoBit) {
  std::mt19937 random(3);
  const auto in = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<v1::Source> sources;
  std::vector<v1::DecodeOptions> options;
  std::vector<std::string> alone;
  const auto bytes = [](const absl::StatusOr<v1::Decoded>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    std::string text;
    for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
      text += hypothesis.SerializeAsString();
    }
    return text;
  };
  for (int i = 0; i < 100; ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(in(1, 12)));
    for (int32_t& id : ids) {
      id = in(0, 49);
    }
    sources.push_back(Ids(ids));
    options.push_back(Options(static_cast<v1::Attention>(in(1, 3))));
    options.back().set_coverage_penalty(static_cast<float>(in(0, 2)) / 4);
    alone.push_back(bytes(engine_->DecodeAndWait(model_, sources.back(), options.back())));
  }
  for (const int threads : {1, 2}) {
    const auto engine = *Engine::Start({threads, 128, 1000});
    std::vector<std::string> together(sources.size());
    absl::BlockingCounter left(static_cast<int>(sources.size()));
    for (size_t i = 0; i < sources.size(); ++i) {
      engine->Decode(model_, sources[i], options[i], {},
                     [&, i](const absl::StatusOr<v1::Decoded>& answer) {
                       together[i] = bytes(answer);
                       left.DecrementCount();
                     });
    }
    left.Wait();
    EXPECT_EQ(together, alone);
  }
}

// What one request's attention does wrong is its own fault alone.
TEST_F(AttentionTest, AttentionThatIsNoNumberFailsItsRequestOnly) {
  const auto model = Compiled(AttentionBundle(table_, {.broken = true}));
  absl::StatusOr<v1::Decoded> broken;
  absl::StatusOr<v1::Decoded> sound;
  absl::StatusOr<v1::Decoded> unasked;
  absl::BlockingCounter left(3);
  const auto into = [&](absl::StatusOr<v1::Decoded>& out) {
    return [&](absl::StatusOr<v1::Decoded> answer) {
      out = std::move(answer);
      left.DecrementCount();
    };
  };
  const v1::DecodeOptions hard = Options(v1::ATTENTION_HARD);
  engine_->Decode(model, Ids({4, 1, 2}), hard, {}, into(broken));
  engine_->Decode(model, Ids({4, 5, 2}), hard, {}, into(sound));
  engine_->Decode(model, Ids({4, 1, 2}), Options(v1::ATTENTION_NONE), {}, into(unasked));
  left.Wait();
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr("attention to source position"));
  EXPECT_TRUE(sound.ok()) << sound.status();
  EXPECT_TRUE(unasked.ok()) << unasked.status();
}

TEST_F(AttentionTest, WhereThereIsNoneItIsRefusedWithTheReason) {
  const auto model = Compiled(engine_testing::TableBundle(table_, {}));
  v1::DecodeOptions options = Options(v1::ATTENTION_SOFT);
  options.set_coverage_penalty(1);
  const auto answer = engine_->DecodeAndWait(model, Ids({1}), options);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("options.coverage_penalty: the model gives no attention: "
                        "attention_output is not set"));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("options.attention: the model"));
}

TEST_F(AttentionTest, MoreWeightsThanAReplyHoldsAreRefused) {
  v1::DecodeOptions options = Options(v1::ATTENTION_SOFT);
  options.set_beam_size(64);
  options.set_n_best(64);
  options.set_max_length(4096);
  const auto answer = engine_->DecodeAndWait(model_, Ids({1, 2, 3}), options);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("options.attention: soft: n_best"));
}

TEST(AttentionConfigTest, AnUnknownOutputIsAMistake) {
  bundle::Bundle bundle = AttentionBundle(RandomTable(1));
  bundle.config.mutable_decoder()->set_attention_output("attention_weights");
  const auto compiled = DecodeModel::Compile(std::move(bundle));
  EXPECT_THAT(std::string(compiled.status().message()),
              HasSubstr("decoder.attention_output: the decoder has no result "
                        "'attention_weights'; it has 'logits', 'next_state', 'attention'"));
}

}  // namespace
}  // namespace beamwright::engine
