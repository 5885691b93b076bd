// Transducers through the engine, against walks through all alignments of the same model in double,
// and against a plain beam search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/parts.h"
#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::Alignments;
using engine_testing::AllTransductions;
using engine_testing::BestOf;
using engine_testing::Compiled;
using engine_testing::FeatureSource;
using engine_testing::kTokens;
using engine_testing::kWidth;
using engine_testing::Labels;
using engine_testing::ModelPtr;
using engine_testing::PlainTransducer;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

static_assert(kWidth == engine_testing::kFeatures);

v1::DecodeOptions WideBeam(int n_best) {
  v1::DecodeOptions options;
  options.set_beam_size(256);
  options.set_expansion(kTokens);
  options.set_n_best(n_best);
  options.set_full_sum(true);
  return options;
}

const TransducerOptions kForms[] = {
    {Predictor::kLstm},
    {Predictor::kStateless},
    {Predictor::kLstm, /*is_one_graph=*/true},
    {Predictor::kLstm, true, /*width_first=*/true},
    {Predictor::kStateless, true},
    {Predictor::kStateless, false, false, /*has_encoder=*/false},
    {Predictor::kLstm, false, false, true, /*durations=*/{0, 1, 2}, 2},
    {Predictor::kStateless, true, false, true, {1, 2}},
    {Predictor::kLstm, false, false, true, {}, 0, false, /*expands=*/true},
    {Predictor::kLstm, true, true, true, {}, 0, false, true},
};

class TransducerTest : public ::testing::TestWithParam<size_t> {
 protected:
  const TransducerOptions& options_ = kForms[GetParam()];
  const ModelPtr model_ = Compiled(TransducerBundle(options_));
  const PlainTransducer plain_{options_};
  const std::unique_ptr<Engine> engine_ = Started();
};

TEST_P(TransducerTest, AWideBeamFindsTheBestOfAllLabellings) {
  ASSERT_NE(model_, nullptr);
  EXPECT_EQ(model_->steps_apart(), "");
  for (const int most : {1, 2}) {
    // So few frames that the beam holds all labellings: 121 of them.
    const int num_frames = most == 1 ? 4 : 2;
    const auto features = RandomFeatures(num_frames, 17);
    const auto all = AllTransductions(plain_, features, options_.durations, most);
    const auto best = BestOf(all, 4);
    v1::DecodeOptions options = WideBeam(4);
    options.set_max_symbols_per_frame(most);
    const auto answer = engine_->DecodeAndWait(model_, FeatureSource(features), options);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->steps(), num_frames);
    ASSERT_EQ(answer->hypotheses_size(), 4);
    for (size_t i = 0; i < best.size(); ++i) {
      SCOPED_TRACE(i);
      const v1::Hypothesis& hypothesis = answer->hypotheses(static_cast<int>(i));
      const Alignments& expected = best[i].second;
      EXPECT_THAT(hypothesis.tokens(), ElementsAreArray(best[i].first));
      EXPECT_NEAR(hypothesis.log_prob(), std::log(expected.sum), 1e-4);
      EXPECT_NEAR(hypothesis.full_log_prob(), std::log(expected.sum), 1e-4);
      EXPECT_NEAR(hypothesis.alignment_log_prob(), expected.best, 1e-4);
      EXPECT_THAT(hypothesis.token_frames(), ElementsAreArray(expected.frames));
      EXPECT_THAT(hypothesis.token_durations(), ElementsAreArray(expected.durations));
    }
  }
}

TEST_P(TransducerTest, TargetsAreScoredOverAllTheirAlignments) {
  ASSERT_NE(model_, nullptr);
  const auto features = RandomFeatures(3, 23);
  v1::ScoreOptions options;
  options.set_max_symbols_per_frame(2);
  const auto all = AllTransductions(plain_, features, options_.durations, 2);
  v1::ScoreSource source;
  *source.mutable_source() = FeatureSource(features);
  const std::vector<Labels> targets = {{}, {2}, {3, 3}, {1, 2, 3}};
  for (const Labels& target : targets) {
    source.add_targets()->mutable_ids()->mutable_ids()->Add(target.begin(), target.end());
  }
  const auto answer = engine_->ScoreAndWait(model_, source, options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (size_t i = 0; i < targets.size(); ++i) {
    const v1::Hypothesis& scored = answer->targets(static_cast<int>(i)).hypothesis();
    const auto found = all.find(targets[i]);
    const double expected =
        found == all.end() ? -std::numeric_limits<double>::infinity() : std::log(found->second.sum);
    if (std::isinf(expected)) {
      EXPECT_EQ(scored.log_prob(), expected);
      continue;
    }
    EXPECT_NEAR(scored.log_prob(), expected, 1e-4);
    EXPECT_NEAR(scored.alignment_log_prob(), found->second.best, 1e-4);
    EXPECT_THAT(scored.token_frames(), ElementsAreArray(found->second.frames));
  }
}

// One symbol a frame (Kang et al. 2022), over lists of labels, with every row computed anew.
std::map<Labels, double> PlainBeam(const PlainTransducer& model, const std::vector<float>& features,
                                   size_t beam) {
  std::map<Labels, double> live = {{{}, 1.0}};
  for (size_t at = 0; at < features.size(); at += kWidth) {
    std::map<Labels, double> next;
    for (const auto& [labels, probability] : live) {
      const std::vector<double> row = model.LogProbs(labels, &features[at]);
      next[labels] += probability * std::exp(row[0]);
      for (int32_t label = 1; label < kTokens; ++label) {
        Labels longer = labels;
        longer.push_back(label);
        next[longer] += probability * std::exp(row[static_cast<size_t>(label)]);
      }
    }
    std::vector<double> sorted;
    for (const auto& [labels, probability] : next) {
      sorted.push_back(probability);
    }
    std::sort(sorted.rbegin(), sorted.rend());
    if (sorted.size() > beam) {
      std::erase_if(next, [&](const auto& one) { return one.second < sorted[beam - 1]; });
    }
    live = std::move(next);
  }
  return live;
}

TEST_P(TransducerTest, ANarrowBeamIsThatOfAPlainSearch) {
  ASSERT_NE(model_, nullptr);
  if (!options_.durations.empty()) {
    GTEST_SKIP() << "the plain search moves by one frame";
  }
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const auto features = RandomFeatures(25, seed);
    v1::DecodeOptions options;
    options.set_beam_size(3);
    options.set_n_best(3);
    options.set_expansion(kTokens);
    options.set_max_symbols_per_frame(1);
    const auto answer = engine_->DecodeAndWait(model_, FeatureSource(features), options);
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto expected = PlainBeam(plain_, features, 3);
    ASSERT_EQ(answer->hypotheses_size(), expected.size());
    for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
      const auto found =
          expected.find(Labels(hypothesis.tokens().begin(), hypothesis.tokens().end()));
      ASSERT_NE(found, expected.end());
      EXPECT_NEAR(hypothesis.log_prob(), std::log(found->second), 1e-4);
    }
  }
}

// The joiner's two first products leave it: one is made once a frame, one once a token. Its last
// one is left to the scan, unless durations are to be separated from tokens, or its scores have
// four axes.
TEST_P(TransducerTest, TheJoinerIsCutByWhatItDependsOn) {
  ASSERT_NE(model_, nullptr);
  const ops::Transducer& graphs = model_->parts().frames->transducer->graphs;
  ASSERT_NE(graphs.frames, nullptr);
  ASSERT_EQ(graphs.joiner_inputs.size(), 2);
  for (const ops::ValueInfo& input : graphs.joiner->inputs()) {
    EXPECT_EQ(input.shape.dims().back(), engine_testing::kJoined);
  }
  EXPECT_EQ(graphs.joiner->projection() != nullptr,
            options_.durations.empty() && !options_.expands);
  EXPECT_EQ(graphs.predictor->states().size(), options_.predictor == Predictor::kLstm ? 2 : 0);
}

INSTANTIATE_TEST_SUITE_P(AllForms, TransducerTest, ::testing::Range(size_t{0}, std::size(kForms)));

TEST(TransducerLoadTest, WhatDoesNotFitIsRefusedWithBothShapes) {
  bundle::Bundle bundle = TransducerBundle({});
  engine_testing::GraphBuilder joiner;
  const auto given = joiner.Parameter("predicted", ops::DType::kF32, {-1, 1, 7});
  const auto frame = joiner.Parameter("frame", ops::DType::kF32, {-1, 1, kWidth});
  const engine_testing::Weight of_given("a", 7, kTokens);
  const engine_testing::Weight of_frame("b", kWidth, kTokens);
  joiner.Result("scores", joiner.Add("Add", {engine_testing::Product(joiner, given, of_given),
                                             engine_testing::Product(joiner, frame, of_frame)}));
  bundle.joiner = joiner.Build();
  EXPECT_THAT(std::string(DecodeModel::Compile(bundle, {}).status().message()),
              HasSubstr("joiner.predictor_input: the predictor's 'predicted' is f32[?, 1, 6]; the "
                        "joiner takes 'predicted' f32[?, 1, 7]"));
  const auto refusal = [](const std::function<void(bundle::Bundle&)>& change) {
    bundle::Bundle changed = TransducerBundle({});
    change(changed);
    return std::string(DecodeModel::Compile(std::move(changed), {}).status().message());
  };
  EXPECT_THAT(refusal([](bundle::Bundle& b) {
                b.config.mutable_transducer()->mutable_joiner()->set_encoder_input("encoder_out");
              }),
              HasSubstr("joiner.encoder_input: there is no input 'encoder_out'; there are "
                        "'predicted', 'frame'"));
  EXPECT_THAT(refusal([](bundle::Bundle& b) {
                b.config.mutable_transducer()->mutable_predictor()->mutable_states()->RemoveLast();
                b.config.mutable_transducer()->mutable_predictor()->set_output("predicted");
              }),
              HasSubstr("input 'c' is neither the token, its length nor a state"));
  EXPECT_THAT(refusal([](bundle::Bundle& b) { b.config.mutable_transducer()->set_blank(4); }),
              HasSubstr("transducer.blank: 4 is outside [0, 4), the columns"));
  EXPECT_THAT(refusal([](bundle::Bundle& b) {
                b.target = engine_testing::Codec(b.config.target(), "_\na\n");
              }),
              HasSubstr("the target vocabulary has 2 tokens, and there are 4 columns"));
}

}  // namespace
}  // namespace beamwright::engine
