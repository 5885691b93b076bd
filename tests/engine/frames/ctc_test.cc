// CTC models through the engine: what is found, scored and reported of them, against a walk through
// all alignments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "engine/options/decode_options.h"
#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/frames/frame_models.h"

namespace beamwright::engine {
namespace {

using engine_testing::Alignments;
using engine_testing::AllLabellings;
using engine_testing::BestOf;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::CtcLogProbs;
using engine_testing::CtcOptions;
using engine_testing::FeatureSource;
using engine_testing::kColumns;
using engine_testing::Labels;
using engine_testing::ModelPtr;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

v1::DecodeOptions WideBeam(int n_best) {
  v1::DecodeOptions options;
  options.set_beam_size(256);
  options.set_expansion(kColumns);
  options.set_n_best(n_best);
  return options;
}

class CtcTest : public ::testing::TestWithParam<std::tuple<bool, bool, int>> {
 protected:
  static CtcOptions Options() {
    const auto [has_encoder, frames_first, blank] = GetParam();
    return {has_encoder, frames_first, blank};
  }
  // As the model takes it.
  static v1::Source Source(const std::vector<float>& features) {
    if (Options().has_encoder) {
      return FeatureSource(features);
    }
    const std::vector<double> log_probs = CtcLogProbs(features);
    return FeatureSource({log_probs.begin(), log_probs.end()}, kColumns);
  }

  const ModelPtr model_ = Compiled(CtcBundle(Options()));
  const std::unique_ptr<Engine> engine_ = Started();
};

TEST_P(CtcTest, AWideBeamFindsTheBestOfAllLabellings) {
  for (const int num_frames : {1, 2, 5}) {
    const auto features = RandomFeatures(num_frames, 7 + static_cast<uint32_t>(num_frames));
    const auto best = BestOf(AllLabellings(CtcLogProbs(features), Options().blank), 4);
    v1::DecodeOptions options = WideBeam(4);
    options.set_full_sum(true);
    const auto answer = engine_->DecodeAndWait(model_, Source(features), options);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->source_length(), num_frames);
    EXPECT_EQ(answer->steps(), num_frames);
    ASSERT_EQ(answer->hypotheses_size(), best.size());
    for (size_t i = 0; i < best.size(); ++i) {
      SCOPED_TRACE(i);
      const v1::Hypothesis& hypothesis = answer->hypotheses(static_cast<int>(i));
      const Alignments& expected = best[i].second;
      EXPECT_THAT(hypothesis.tokens(), ElementsAreArray(best[i].first));
      EXPECT_NEAR(hypothesis.log_prob(), std::log(expected.sum), 1e-5);
      EXPECT_NEAR(hypothesis.full_log_prob(), std::log(expected.sum), 1e-5);
      EXPECT_NEAR(hypothesis.score(), std::log(expected.sum), 1e-5);
      EXPECT_NEAR(hypothesis.alignment_log_prob(), expected.best, 1e-5);
      EXPECT_THAT(hypothesis.token_frames(), ElementsAreArray(expected.frames));
      EXPECT_THAT(hypothesis.token_durations(), ElementsAreArray(expected.durations));
      EXPECT_EQ(hypothesis.token_log_probs_size(), hypothesis.tokens_size());
      EXPECT_EQ(hypothesis.finish_reason(), v1::FINISH_REASON_END_OF_SOURCE);
    }
  }
}

TEST_P(CtcTest, TargetsAreScoredOverAllTheirAlignments) {
  const auto features = RandomFeatures(5, 3);
  const auto all = AllLabellings(CtcLogProbs(features), Options().blank);
  const int first = Options().blank == 0 ? 1 : 0;
  v1::ScoreSource source;
  *source.mutable_source() = Source(features);
  const std::vector<Labels> targets = {
      {}, {first}, {first, first, first + 1}, {first, first, first, first}};
  for (const Labels& target : targets) {
    source.add_targets()->mutable_ids()->mutable_ids()->Add(target.begin(), target.end());
  }
  const auto answer = engine_->ScoreAndWait(model_, source, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (size_t i = 0; i + 1 < targets.size(); ++i) {
    const v1::ScoredTarget& scored = answer->targets(static_cast<int>(i));
    const Alignments& expected = all.at(targets[i]);
    EXPECT_THAT(scored.hypothesis().tokens(), ElementsAreArray(targets[i]));
    EXPECT_NEAR(scored.hypothesis().log_prob(), std::log(expected.sum), 1e-5);
    EXPECT_NEAR(scored.hypothesis().alignment_log_prob(), expected.best, 1e-5);
    EXPECT_THAT(scored.hypothesis().token_frames(), ElementsAreArray(expected.frames));
    EXPECT_NEAR(
        std::log(scored.perplexity()),
        -std::log(expected.sum) / std::max<double>(1, static_cast<double>(targets[i].size())),
        1e-5);
  }
  // Equal labels need blanks between them: more frames than there are.
  EXPECT_EQ(answer->targets(3).hypothesis().log_prob(), -std::numeric_limits<double>::infinity());
}

INSTANTIATE_TEST_SUITE_P(AllForms, CtcTest,
                         ::testing::Values(std::tuple{true, false, 0}, std::tuple{true, true, 0},
                                           std::tuple{true, false, kColumns - 1},
                                           std::tuple{false, false, 0},
                                           std::tuple{false, false, kColumns - 1}));

TEST(CtcOptionsTest, TextIsThatOfTheTargetVocabulary) {
  const ModelPtr model = Compiled(CtcBundle({}));
  const auto features = RandomFeatures(4, 3);
  v1::DecodeOptions options;
  options.add_allowed_sequences()->set_text("b a");
  options.add_allowed_sequences()->set_text("b a b");
  const auto answer = Started()->DecodeAndWait(model, FeatureSource(features), options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto all = AllLabellings(CtcLogProbs(features), 0);
  const bool longer = all.at({2, 1, 2}).sum > all.at({2, 1}).sum;
  EXPECT_EQ(answer->hypotheses(0).text(), longer ? "b a b" : "b a");
}

TEST(CtcOptionsTest, AnNgramModelCountsByLabel) {
  bundle::Bundle bundle = CtcBundle({});
  v1::ScorerConfig& scorer = *bundle.config.add_scorers();
  scorer.set_name("lm");
  scorer.mutable_ngram()->set_file("lm.arpa");
  bundle.ngrams["lm"] =
      "\\data\\\nngram 1=6\nngram 2=1\n\\1-grams:\n-99 <s> -0.5\n-1 </s>\n-0.5 a -0.25\n"
      "-0.75 b\n-1.25 c\n-2 d\n\\2-grams:\n-0.125 a b\n\\end\\\n";
  const ModelPtr model = Compiled(std::move(bundle));
  v1::DecodeOptions options = WideBeam(1);
  options.add_allowed_sequences()->set_text("a b");
  v1::FusionWeight& fusion = *options.add_fusion();
  fusion.set_name("lm");
  fusion.set_weight(0.5);
  const auto features = RandomFeatures(4, 3);
  const auto answer = Started()->DecodeAndWait(model, FeatureSource(features), options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const v1::Hypothesis& best = answer->hypotheses(0);
  ASSERT_EQ(best.scorer_parts_size(), 1);
  EXPECT_EQ(best.scorer_parts(0).name(), "lm");
  // <s> a: back-off and unigram; a b; b </s>: unigram.
  EXPECT_NEAR(best.scorer_parts(0).log_prob(), (-0.5 - 0.5 - 0.125 - 1) * std::log(10.0), 1e-5);
  EXPECT_NEAR(best.score(), best.log_prob() + 0.5 * best.scorer_parts(0).log_prob(), 1e-9);
}

// A row alone would keep the beginning of a phrase that the frames do not say.
TEST(CtcOptionsTest, HotwordsWidenABeamOfOne) {
  CtcOptions shape;
  shape.has_encoder = false;
  const ModelPtr model = Compiled(CtcBundle(shape));
  v1::DecodeOptions options;
  options.add_hotwords()->mutable_ids()->add_ids(1);
  for (const auto& [asked, expected] : {std::pair(1, 4), {2, 2}}) {
    options.set_beam_size(asked);
    const auto resolved = ResolveOptions(*model, options);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ((*resolved)->frames->options().beam_size, expected);
  }
}

// Where no phrase begins, that is all that hotwords change: answers are those of the wider beam.
TEST(CtcOptionsTest, HotwordsThatNothingBeginsLeaveTheAnswersOfBeamFour) {
  CtcOptions shape;
  shape.has_encoder = false;
  const ModelPtr model = Compiled(CtcBundle(shape));
  int num_changed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::vector<double> log_probs = CtcLogProbs(RandomFeatures(20, seed));
    std::vector<float> frames(log_probs.begin(), log_probs.end());
    for (size_t place = kColumns - 1; place < frames.size(); place += kColumns) {
      frames[place] = -40;  // of the phrase's first token
    }
    const v1::Source source = FeatureSource(frames, kColumns);
    v1::DecodeOptions options;
    options.set_beam_size(1);
    const auto narrow = Started()->DecodeAndWait(model, source, options);
    options.set_beam_size(4);
    const auto plain = Started()->DecodeAndWait(model, source, options);
    for (const int beam_size : {1, 4}) {
      v1::DecodeOptions with = options;
      with.set_beam_size(beam_size);
      v1::Hotword& phrase = *with.add_hotwords();
      phrase.mutable_ids()->add_ids(kColumns - 1);
      phrase.mutable_ids()->add_ids(1);
      phrase.set_bonus(5);
      const auto answer = Started()->DecodeAndWait(model, source, with);
      ASSERT_TRUE(narrow.ok() && plain.ok() && answer.ok()) << answer.status();
      EXPECT_THAT(answer->hypotheses(0).tokens(), ElementsAreArray(plain->hypotheses(0).tokens()));
      EXPECT_EQ(answer->hypotheses(0).log_prob(), plain->hypotheses(0).log_prob());
    }
    num_changed += plain->hypotheses(0).text() == narrow->hypotheses(0).text() ? 0 : 1;
  }
  EXPECT_GT(num_changed, 0);  // a beam of 1 misses some of these
}

TEST(CtcOptionsTest, ASilentSourceHasAnEmptyAnswer) {
  const ModelPtr model = Compiled(CtcBundle({false, false, 0}));
  std::vector<float> frames;
  for (int frame = 0; frame < 20000; ++frame) {
    frames.insert(frames.end(), {0, -30, -30, -30, -30});
  }
  const auto answer =
      Started()->DecodeAndWait(model, FeatureSource(frames, kColumns), v1::DecodeOptions());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->hypotheses(0).tokens(), ElementsAre());
  EXPECT_EQ(answer->hypotheses(0).text(), "");
  EXPECT_EQ(answer->steps(), 20000);
}

}  // namespace
}  // namespace beamwright::engine
