// Teacher-forced scores through the engine: to the bit what a search reports for the same tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "include/beamwright/engine.h"
#include "tests/engine/attention_bundle.h"
#include "tests/engine/recurrent_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::AttentionBundle;
using engine_testing::kBegin;
using engine_testing::kVocabulary;
using engine_testing::NextState;
using engine_testing::RandomTable;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

v1::ScoreSource Source(const std::vector<int32_t>& ids,
                       const std::vector<std::vector<int32_t>>& targets) {
  v1::ScoreSource source;
  source.mutable_source()->mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  for (const std::vector<int32_t>& target : targets) {
    source.add_targets()->mutable_ids()->mutable_ids()->Add(target.begin(), target.end());
  }
  return source;
}

class ScoreTest : public ::testing::Test {
 protected:
  ScoreTest() {
    auto compiled = DecodeModel::Compile(AttentionBundle(table_));
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    model_ = *std::move(compiled);
  }

  const std::vector<float> table_ = RandomTable(41);
  std::shared_ptr<const DecodeModel> model_;
  const std::unique_ptr<Engine> engine_ = *Engine::Start({1, 512, 1000});
};

TEST_F(ScoreTest, AddsUpTheTable) {
  const auto answer = engine_->ScoreAndWait(model_, Source({3, 4}, {{2, 6, 1}, {5}, {2, 6, 3, 3}}),
                                            v1::ScoreOptions());
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->targets_size(), 3);
  EXPECT_EQ(answer->source_length(), 2);
  EXPECT_THAT(answer->targets(0).hypothesis().tokens(), ElementsAre(2, 6, 1));
  EXPECT_THAT(answer->targets(1).hypothesis().tokens(), ElementsAre(5, 1)) << "with an end token";
  for (const v1::ScoredTarget& target : answer->targets()) {
    int64_t state = 7;
    int32_t read = kBegin;
    double sum = 0;
    for (int t = 0; t < target.hypothesis().tokens_size(); ++t) {
      state = NextState(state, read);
      read = target.hypothesis().tokens(t);
      const float expected = table_[static_cast<size_t>(state * kVocabulary + read)];
      EXPECT_EQ(target.hypothesis().token_log_probs(t), expected);
      sum += static_cast<double>(expected);
    }
    EXPECT_EQ(target.hypothesis().log_prob(), sum);
    EXPECT_EQ(target.hypothesis().score(), sum);
    EXPECT_EQ(target.hypothesis().finish_reason(), v1::FINISH_REASON_EOS);
    EXPECT_DOUBLE_EQ(target.perplexity(), std::exp(-sum / target.hypothesis().tokens_size()));
  }
}

// R7, to the bit: sums, scores, coverage, alignment and weights of whatever a search answers.
TEST_F(ScoreTest, EqualsWhatASearchReports) {
  std::mt19937 random(5);
  const auto in = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    const std::vector<int32_t> source = {in(0, 49), in(0, 49), in(0, 49)};
    v1::DecodeOptions options;
    options.set_beam_size(6);
    options.set_n_best(6);
    options.set_max_length(in(1, 8));
    options.set_length_penalty(static_cast<v1::LengthPenalty>(in(1, 3)));
    options.set_length_penalty_alpha(static_cast<float>(in(-2, 4)) / 2);
    options.set_word_reward(static_cast<float>(in(-1, 1)) / 2);
    options.set_coverage_penalty(static_cast<float>(in(0, 2)) / 2);
    options.set_attention(v1::ATTENTION_SOFT);
    options.set_top_tokens(2);
    v1::Source only = Source(source, {}).source();
    const auto decoded = engine_->DecodeAndWait(model_, only, options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    v1::ScoreOptions score;
    score.set_end_token(false);
    score.set_length_penalty(options.length_penalty());
    score.set_length_penalty_alpha(options.length_penalty_alpha());
    score.set_word_reward(options.word_reward());
    score.set_coverage_penalty(options.coverage_penalty());
    score.set_attention(v1::ATTENTION_SOFT);
    score.set_top_tokens(2);
    std::vector<std::vector<int32_t>> targets;
    for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
      targets.emplace_back(hypothesis.tokens().begin(), hypothesis.tokens().end());
    }
    const auto scored = engine_->ScoreAndWait(model_, Source(source, targets), score);
    ASSERT_TRUE(scored.ok()) << scored.status();
    for (int h = 0; h < decoded->hypotheses_size(); ++h) {
      EXPECT_EQ(scored->targets(h).hypothesis().SerializeAsString(),
                decoded->hypotheses(h).SerializeAsString());
    }
  }
}

TEST_F(ScoreTest, NeighboursChangeNoBit) {
  std::mt19937 random(9);
  const auto in = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<v1::ScoreSource> sources;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::vector<int32_t>> targets(static_cast<size_t>(in(1, 5)));
    for (std::vector<int32_t>& target : targets) {
      for (int k = in(1, 7); k > 0; --k) {
        target.push_back(in(2, kVocabulary - 1));
      }
    }
    sources.push_back(Source(std::vector<int32_t>(static_cast<size_t>(in(1, 6)), i % 50), targets));
  }
  v1::ScoreOptions options;
  options.set_attention(v1::ATTENTION_HARD);
  const auto engine = *Engine::Start({2, 64, 1000});
  std::vector<v1::Scored> together(sources.size());
  absl::BlockingCounter left(2 * static_cast<int>(sources.size()));
  for (size_t i = 0; i < sources.size(); ++i) {
    engine->Score(model_, sources[i], options, {}, [&, i](absl::StatusOr<v1::Scored> scored) {
      EXPECT_TRUE(scored.ok()) << scored.status();
      together[i] = scored.ok() ? *std::move(scored) : v1::Scored();
      left.DecrementCount();
    });
    engine->Decode(model_, sources[i].source(), {}, {},
                   [&](const absl::StatusOr<v1::Decoded>&) { left.DecrementCount(); });
  }
  left.Wait();
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto alone = engine_->ScoreAndWait(model_, sources[i], options);
    ASSERT_TRUE(alone.ok());
    for (int t = 0; t < alone->targets_size(); ++t) {
      EXPECT_EQ(together[i].targets(t).SerializeAsString(), alone->targets(t).SerializeAsString());
    }
  }
}

TEST_F(ScoreTest, AnEmptyTargetIsItsEndToken) {
  const auto answer = engine_->ScoreAndWait(model_, Source({3}, {{}}), v1::ScoreOptions());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->targets(0).hypothesis().tokens(), ElementsAre(1));
}

TEST_F(ScoreTest, WithoutEndTokenTheTargetStaysAsItIs) {
  v1::ScoreOptions options;
  options.set_end_token(false);
  const auto answer = engine_->ScoreAndWait(model_, Source({3}, {{2, 2}}), options);
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer->targets(0).hypothesis().tokens(), ElementsAre(2, 2));
  EXPECT_EQ(answer->targets(0).hypothesis().finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(ScoreTest, FaultsAreNamedTogether) {
  const auto error = [&](const v1::ScoreSource& source, const v1::ScoreOptions& options) {
    const auto answer = engine_->ScoreAndWait(model_, source, options);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(answer.status().message());
  };
  EXPECT_THAT(error(Source({3}, {}), {}), HasSubstr("targets: has 0 entries, must have 1 to 256"));
  const std::string tokens = error(Source({3}, {{2}, {7}, {-1, 2}}), {});
  EXPECT_THAT(tokens, HasSubstr("targets[1].ids[0]: 7 is outside [0, 7)"));
  EXPECT_THAT(tokens, HasSubstr("targets[2].ids[0]: -1 is outside"));
  v1::ScoreOptions options;
  options.set_end_token(false);
  EXPECT_THAT(error(Source({3}, {{}}), options), HasSubstr("targets[0]: is empty"));
  EXPECT_THAT(
      error(Source({3}, std::vector<std::vector<int32_t>>(20, std::vector<int32_t>(4000, 2))), {}),
      HasSubstr("targets: have 80020 tokens together; at most 65536"));
  options.set_length_penalty_alpha(std::nanf(""));
  options.set_coverage_penalty(-1);
  const std::string ranges = error(Source({3}, {{2}}), options);
  EXPECT_THAT(ranges, HasSubstr("options.length_penalty_alpha"));
  EXPECT_THAT(ranges, HasSubstr("options.coverage_penalty: -1 is outside [0, 100]"));
}

TEST_F(ScoreTest, ScoringThatIsGivenUpEnds) {
  const auto given_up = std::make_shared<CancelFlag>();
  given_up->Cancel();
  CallOptions call;
  call.cancelled = given_up;
  EXPECT_EQ(engine_->ScoreAndWait(model_, Source({3}, {{2, 2, 2}}), {}, call).status().code(),
            absl::StatusCode::kCancelled);
  call = {};
  call.deadline = absl::InfinitePast();
  EXPECT_EQ(engine_->ScoreAndWait(model_, Source({3}, {{2, 2, 2}}), {}, call).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace

// Padding, which has no share in any probability, and logits at the ends of f32, through the
// engine.

namespace {

using engine_testing::Ending;
using engine_testing::kStates;
using engine_testing::kVocabulary;
using engine_testing::RandomTable;
using engine_testing::RecurrentBundle;
using engine_testing::RecurrentOptions;
using engine_testing::TableBundle;

v1::Source ThreeIds() {
  v1::Source source;
  for (const int id : {3, 14, 15}) {
    source.mutable_ids()->add_ids(id);
  }
  return source;
}

// What Score says of the tokens of each answer is what the search said, to the bit.
void ExpectScoredAlike(bundle::Bundle bundle, const std::string& pad) {
  bundle.config.mutable_target()->set_pad_token(pad);
  bundle.target = engine_testing::IdCodec(bundle.config.target());
  const auto compiled = DecodeModel::Compile(std::move(bundle));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto engine = *Engine::Start({1, 64, 100});
  for (const bool renormalize : {false, true}) {
    v1::DecodeOptions options;
    options.set_renormalize(renormalize);
    options.set_beam_size(4);
    options.set_n_best(4);
    options.set_max_length(5);
    if (!renormalize) {  // a ban leaves other values alone
      options.mutable_suppress_tokens()->mutable_ids()->add_ids(4);
      options.set_min_length(2);
    }
    const auto decoded = engine->DecodeAndWait(*compiled, ThreeIds(), options);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    v1::ScoreSource targets;
    *targets.mutable_source() = ThreeIds();
    for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
      *targets.add_targets()->mutable_ids()->mutable_ids() = hypothesis.tokens();
    }
    v1::ScoreOptions score;
    score.set_end_token(false);
    const auto scored = engine->ScoreAndWait(*compiled, targets, score);
    ASSERT_TRUE(scored.ok()) << scored.status();
    ASSERT_EQ(scored->targets_size(), 4);
    for (int i = 0; i < scored->targets_size(); ++i) {
      const v1::Hypothesis& hypothesis = scored->targets(i).hypothesis();
      EXPECT_EQ(hypothesis.log_prob(), decoded->hypotheses(i).log_prob());
      for (int t = 0; t < hypothesis.tokens_size(); ++t) {
        EXPECT_EQ(hypothesis.token_log_probs(t), decoded->hypotheses(i).token_log_probs(t));
        EXPECT_NE(absl::StrCat(hypothesis.tokens(t)), pad);
      }
    }
  }
}

TEST(ScoreRangeTest, PaddingHasNoShareInWhatScoreAndSearchSay) {
  for (const Ending ending :
       {Ending::kLogits, Ending::kLogSoftmax, Ending::kSoftmax, Ending::kTanh}) {
    SCOPED_TRACE(static_cast<int>(ending));
    RecurrentOptions options;
    options.ending = ending;
    ExpectScoredAlike(RecurrentBundle(options).Build(), "5");
  }
  ExpectScoredAlike(TableBundle(RandomTable(5), {}), "5");
}

// A model whose logits are all of one size, for the token 2 a little more of it.
std::shared_ptr<const DecodeModel> ModelOfSize(float size) {
  std::vector<float> table(kStates * kVocabulary, size);
  for (size_t state = 0; state < kStates; ++state) {
    table[state * kVocabulary + 2] = size > 0 ? size : size / 2;
  }
  bundle::Bundle bundle = TableBundle(table, {});
  bundle.config.mutable_decoder()->set_logits_kind(v1::LOGITS_KIND_LOGITS);
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(ScoreRangeTest, LogitsOfAnySizeStandEveryOption) {
  const auto engine = *Engine::Start({1, 64, 100});
  const float most = std::numeric_limits<float>::max();
  for (const float size : {-most, -3e38f, 3e38f, most}) {
    const auto model = ModelOfSize(size);
    for (const float temperature : {0.01f, 1.0f, 100.0f}) {
      for (const float penalty : {0.01f, 1.0f, 100.0f}) {
        v1::DecodeOptions options;
        options.set_temperature(temperature);
        options.set_repetition_penalty(penalty);
        options.set_max_length(4);
        const auto decoded = engine->DecodeAndWait(model, ThreeIds(), options);
        ASSERT_TRUE(decoded.ok()) << decoded.status() << " " << size << " " << temperature;
        ASSERT_GT(decoded->hypotheses_size(), 0);
        EXPECT_LE(decoded->hypotheses(0).log_prob(), 0);
        EXPECT_GT(decoded->hypotheses(0).log_prob(), -10);
      }
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  v1::DecodeOptions options;
  options.set_temperature(0.01f);
  const absl::Status none =
      engine->DecodeAndWait(ModelOfSize(-infinity), ThreeIds(), options).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition) << none;
  const absl::Status broken =
      engine->DecodeAndWait(ModelOfSize(infinity), ThreeIds(), options).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInternal) << broken;
}

}  // namespace

}  // namespace beamwright::engine
