// Padding, which has no share in any probability, and logits at the ends of f32, through the
// engine.
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "include/beamwright/engine.h"
#include "tests/engine/recurrent_bundle.h"

namespace beamwright::engine {
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
