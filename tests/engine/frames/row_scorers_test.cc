// Recurrent language models and a transducer's internal one in the engine, against a walk through
// all alignments of the model with both written down a second time, in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/language_model.h"
#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::AddLanguageModel;
using engine_testing::Alignments;
using engine_testing::AllLabellings;
using engine_testing::AllTransductions;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::CtcLogProbs;
using engine_testing::FeatureSource;
using engine_testing::kColumns;
using engine_testing::kTokens;
using engine_testing::kWidth;
using engine_testing::Labels;
using engine_testing::ModelPtr;
using engine_testing::PlainLanguageModel;
using engine_testing::PlainTransducer;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// The transducer's rows with a frame of zeros, over labels alone.
double PlainInternalModel(const PlainTransducer& plain, const Labels& labels) {
  const float zeros[kWidth] = {};
  double sum = 0;
  Labels before;
  for (const int32_t label : labels) {
    const std::vector<double> row = plain.LogProbs(before, zeros);
    sum += row[static_cast<size_t>(label)] - std::log1p(-std::exp(row[0]));
    before.push_back(label);
  }
  return sum;
}

void Add(const char* name, float weight, v1::DecodeOptions& options) {
  v1::FusionWeight& fusion = *options.add_fusion();
  fusion.set_name(name);
  fusion.set_weight(weight);
}

// The answer lists the best of `all` by the sum over alignments and `added`, and has both.
void ExpectBest(const v1::Decoded& answer, const std::map<Labels, Alignments>& all,
                const std::function<double(const Labels&)>& added) {
  std::vector<std::pair<double, Labels>> expected;
  for (const auto& [labels, alignments] : all) {
    expected.push_back({std::log(alignments.sum) + added(labels), labels});
  }
  std::sort(expected.rbegin(), expected.rend());
  for (int i = 0; i < answer.hypotheses_size(); ++i) {
    SCOPED_TRACE(i);
    const v1::Hypothesis& hypothesis = answer.hypotheses(i);
    const auto& [score, labels] = expected[static_cast<size_t>(i)];
    EXPECT_THAT(hypothesis.tokens(), ElementsAreArray(labels));
    EXPECT_NEAR(hypothesis.score(), score, 2e-4);
    EXPECT_NEAR(hypothesis.log_prob(), std::log(all.at(labels).sum), 1e-4);
    double parts = 0;
    for (const v1::ScorerPart& part : hypothesis.scorer_parts()) {
      parts += part.weight() * part.log_prob();
    }
    EXPECT_NEAR(hypothesis.score(), hypothesis.log_prob() + parts, 1e-6);
  }
}

v1::DecodeOptions WideBeam() {
  v1::DecodeOptions options;
  options.set_beam_size(256);
  options.set_n_best(6);
  return options;
}

TEST(RowScorersTest, ALanguageModelCountsByTheLabelsOfATransducer) {
  const TransducerOptions forms[] = {{Predictor::kLstm},
                                     {Predictor::kStateless, false, false, false},
                                     {Predictor::kLstm, true, false, true, {0, 1, 2}, 2}};
  for (const TransducerOptions& form : forms) {
    SCOPED_TRACE(&form - forms);
    const PlainTransducer plain(form);
    bundle::Bundle bundle = TransducerBundle(form);
    AddLanguageModel(kTokens, bundle);
    const ModelPtr model = Compiled(std::move(bundle));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->steps_apart(), "");
    const int most = form.durations.empty() ? 1 : 2;
    const auto features = RandomFeatures(most == 1 ? 4 : 2, 17);
    const auto all = AllTransductions(plain, features, form.durations, most);
    v1::DecodeOptions options = WideBeam();
    options.set_expansion(kTokens);
    options.set_max_symbols_per_frame(most);
    Add("lm", 0.75f, options);
    Add("internal_lm", -0.5f, options);
    const auto answer = Started()->DecodeAndWait(model, FeatureSource(features), options);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ExpectBest(*answer, all, [&](const Labels& labels) {
      return 0.75 * PlainLanguageModel(kTokens, labels) - 0.5 * PlainInternalModel(plain, labels);
    });
  }
}

// What it begins with is the vocabulary's token of that name, or else the blank.
TEST(RowScorersTest, ALanguageModelCountsByTheLabelsOfCtc) {
  for (const int begin : {0, 3}) {
    SCOPED_TRACE(begin);
    bundle::Bundle bundle = CtcBundle({});
    if (begin > 0) {
      v1::TextConfig& target = *bundle.config.mutable_target();
      target.set_begin_token("c");
      bundle.target = engine_testing::Codec(target, "_\na\nb\nc\nd\n");
    }
    AddLanguageModel(kColumns, bundle);
    const ModelPtr model = Compiled(std::move(bundle));
    ASSERT_NE(model, nullptr);
    const auto features = RandomFeatures(4, 3);
    v1::DecodeOptions options = WideBeam();
    Add("lm", 1.5f, options);
    const auto answer = Started()->DecodeAndWait(model, FeatureSource(features), options);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ExpectBest(*answer, AllLabellings(CtcLogProbs(features), 0), [begin](const Labels& labels) {
      return 1.5 * PlainLanguageModel(kColumns, labels, begin);
    });
  }
}

// Neighbours that ask for other scorers, threads and streams change no bit.
TEST(RowScorersTest, NeighboursThreadsAndStreamsChangeNoBit) {
  for (const bool is_ctc : {false, true}) {
    SCOPED_TRACE(is_ctc);
    bundle::Bundle bundle = is_ctc ? CtcBundle({}) : TransducerBundle({});
    AddLanguageModel(is_ctc ? kColumns : kTokens, bundle);
    const auto source = [](int number) {
      return FeatureSource(RandomFeatures(1 + number * 7 % 20, static_cast<uint32_t>(number)));
    };
    const auto wanted = [is_ctc](int number) {
      v1::DecodeOptions options;
      options.set_beam_size(1 + number % 5);
      options.set_n_best(1 + number % (1 + number % 5));
      if (number % 3 != 0) {
        Add("lm", 0.25f * static_cast<float>(number % 3), options);
      }
      if (!is_ctc && number % 2 == 0) {
        Add("internal_lm", -0.3f, options);
      }
      return options;
    };
    engine_testing::ExpectSameBits(Compiled(std::move(bundle)), {14, source, wanted},
                                   {{2, 1}, {2, 2}});
  }
}

TEST(RowScorersTest, WhatDoesNotFitIsRefusedByField) {
  const ModelPtr model = Compiled(TransducerBundle({}));
  const v1::Source source = FeatureSource(RandomFeatures(3, 1));
  v1::DecodeOptions options;
  Add("internal_lm", 0.5f, options);
  Add("lm", 0.5f, options);
  const std::string fault(Started()->DecodeAndWait(model, source, options).status().message());
  EXPECT_THAT(fault, HasSubstr("options.fusion[0].weight: 0.5 is outside [-100, 0], what the "
                               "model allows of 'internal_lm'"));
  EXPECT_THAT(fault, HasSubstr("options.fusion[1].name: the model has no scorer 'lm'; it has 1: "
                               "'internal_lm'"));
  const auto refusal = [](bundle::Bundle bundle) {
    return std::string(DecodeModel::Compile(std::move(bundle), {}).status().message());
  };
  bundle::Bundle bundle = TransducerBundle({});
  AddLanguageModel(kTokens + 1, bundle);
  EXPECT_THAT(refusal(bundle),
              HasSubstr("scorer 'lm': lm.onnx: the decoder has logits for 5 tokens, the target "
                        "vocabulary 4"));
  bundle = CtcBundle({});
  AddLanguageModel(kColumns, bundle);
  bundle.config.mutable_scorers(0)->mutable_language_model()->mutable_states(0)->clear_initial();
  EXPECT_THAT(refusal(bundle), HasSubstr("scorer 'lm': "));
  EXPECT_THAT(refusal(bundle), HasSubstr("'h' is neither the token nor a state that starts from a "
                                         "constant"));
}

}  // namespace
}  // namespace beamwright::engine
