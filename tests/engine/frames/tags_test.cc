// Taggers through the engine: one label for each token of a source, with and without a CRF.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/frames/frame_models.h"

namespace beamwright::engine {
namespace {

using engine_testing::Codec;
using engine_testing::Compiled;
using engine_testing::FaultOf;
using engine_testing::ModelPtr;
using engine_testing::Started;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kLabels = 3;
constexpr int kTokens = 4;

// Of the label at a position, by the token there.
const std::vector<float> kTable = {0, 1, 2, /**/ 3, 1, 0, /**/ 1, 1.5, 0, /**/ 0, 0, 4};

// At the first position, at the last, and behind each label.
constexpr char kCrf[] = "0 1 -1\n2 0 0\n1 -2 0\n0 0.5 -1\n-3 2 0\n";

bundle::Bundle TagBundle(const std::string& transitions = "") {
  bundle::Bundle bundle;
  bundle.name = "tags";
  bundle.version = "1";
  v1::ModelConfig& config = bundle.config;
  config.set_format_version(1);
  testing_support::GraphBuilder graph;
  const auto source = graph.Parameter("ids", ops::DType::kI64, {-1, -1});
  const auto table = graph.Constant(ops::Tensor::Of<float>({kTokens, kLabels}, kTable));
  graph.Result("labels", graph.Add("Gather", {table, source, graph.Int(0)}));
  bundle.encoder = graph.Build();
  config.mutable_encoder()->set_graph("encoder.onnx");
  config.mutable_tags();
  if (!transitions.empty()) {
    config.mutable_tags()->set_transitions("crf.txt");
    bundle.transitions = transitions;
  }
  config.mutable_source()->set_form(v1::TEXT_FORM_CHARACTERS);
  config.mutable_source()->set_vocabulary("source.vocab");
  config.mutable_source()->set_pad_token("_");
  config.mutable_target()->set_form(v1::TEXT_FORM_WHITESPACE);
  config.mutable_target()->set_vocabulary("labels.txt");
  bundle.source = Codec(config.source(), "_\na\nb\nc\n");
  bundle.target = Codec(config.target(), "N\nV\nX\n");
  return bundle;
}

v1::Source Text(const std::string& text) {
  v1::Source source;
  source.set_text(text);
  return source;
}

v1::DecodeOptions BestOf(int count) {
  v1::DecodeOptions options;
  options.set_beam_size(count);
  options.set_n_best(count);
  return options;
}

double LogSoftmax(size_t token, size_t label) {
  double sum = 0;
  for (size_t i = 0; i < kLabels; ++i) {
    sum += std::exp(double{kTable[token * kLabels + i]});
  }
  return double{kTable[token * kLabels + label]} - std::log(sum);
}

TEST(TagsTest, EachTokenHasTheLabelThatIsBestThere) {
  const ModelPtr model = Compiled(TagBundle());
  const auto answer = Started()->DecodeAndWait(model, Text("abca"), BestOf(2));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->source_length(), 4);
  ASSERT_EQ(answer->hypotheses_size(), 2);
  const v1::Hypothesis& best = answer->hypotheses(0);
  EXPECT_THAT(best.tokens(), ElementsAre(0, 1, 2, 0));
  EXPECT_EQ(best.text(), "N V X N");
  EXPECT_NEAR(best.log_prob(), 2 * LogSoftmax(1, 0) + LogSoftmax(2, 1) + LogSoftmax(3, 2), 1e-5);
  EXPECT_EQ(best.score(), best.log_prob());
  ASSERT_EQ(best.token_log_probs_size(), 4);
  EXPECT_NEAR(best.token_log_probs(1), LogSoftmax(2, 1), 1e-6);
  EXPECT_EQ(best.token_frames_size(), 0);
  EXPECT_EQ(best.finish_reason(), v1::FINISH_REASON_END_OF_SOURCE);
  // The closest second choice: of 'b' N in the place of V.
  EXPECT_THAT(answer->hypotheses(1).tokens(), ElementsAre(0, 0, 2, 0));
}

TEST(TagsTest, ACrfChoosesLabelsWithTheirNeighbours) {
  const ModelPtr model = Compiled(TagBundle(kCrf));
  const auto answer = Started()->DecodeAndWait(model, Text("bb"), BestOf(9));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->hypotheses_size(), 9);
  double sum = 0;
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
    sum += std::exp(hypothesis.log_prob());
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  // Energies: NN 0+1+1+1+2 = 5, VN 1+1.5+0+1+2 = 5.5, VV 1+1.5+0.5+1.5 = 4.5.
  EXPECT_THAT(answer->hypotheses(0).tokens(), ElementsAre(1, 0));
  EXPECT_THAT(answer->hypotheses(1).tokens(), ElementsAre(0, 0));
  EXPECT_THAT(answer->hypotheses(2).tokens(), ElementsAre(1, 1));
  EXPECT_NEAR(answer->hypotheses(0).log_prob() - answer->hypotheses(1).log_prob(), 0.5, 1e-5);
  EXPECT_NEAR(answer->hypotheses(1).log_prob() - answer->hypotheses(2).log_prob(), 0.5, 1e-5);

  v1::ScoreSource targets;
  *targets.mutable_source() = Text("bb");
  targets.add_targets()->set_text("V N");
  targets.add_targets()->set_text("V");
  const auto scored = Started()->ScoreAndWait(model, targets, {});
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_NEAR(scored->targets(0).hypothesis().log_prob(), answer->hypotheses(0).log_prob(), 1e-6);
  EXPECT_EQ(scored->targets(1).hypothesis().log_prob(), -std::numeric_limits<double>::infinity());
}

TEST(TagsTest, PaddingHasNoLabels) {
  bundle::Bundle bundle = TagBundle(kCrf);
  bundle.config.mutable_source()->set_pad_to_length(6);
  const auto padded = Started()->DecodeAndWait(Compiled(std::move(bundle)), Text("abc"), {});
  const auto plain = Started()->DecodeAndWait(Compiled(TagBundle(kCrf)), Text("abc"), {});
  ASSERT_TRUE(padded.ok()) << padded.status();
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(padded->hypotheses(0).SerializeAsString(), plain->hypotheses(0).SerializeAsString());
  EXPECT_EQ(padded->hypotheses(0).tokens_size(), 3);
}

TEST(TagsTest, SourcesAnswerTogetherAsAlone) {
  for (const bool has_crf : {false, true}) {
    engine_testing::NumberedRequests requests;
    requests.count = 40;
    requests.source = [](int i) {
      std::string text;
      for (int position = 0; position <= i * 7 % 40; ++position) {
        text += "abc"[(i + position * position) % 3];
      }
      return Text(text);
    };
    requests.options = [](int i) { return BestOf(1 + i % 5); };
    engine_testing::ExpectSameBits(Compiled(TagBundle(has_crf ? kCrf : "")), requests,
                                   {{2, 1}, {2, 2}});
  }
}

TEST(TagsTest, OptionsOfOtherSearchesAreRefused) {
  const ModelPtr model = Compiled(TagBundle());
  v1::DecodeOptions options;
  options.set_no_repeat_ngram(2);
  options.set_word_reward(1);
  options.mutable_suppress_tokens()->set_text("V");
  const std::string fault = FaultOf(model, Text("ab"), options);
  EXPECT_THAT(fault, HasSubstr("options.no_repeat_ngram: is for models with a decoder and CTC "
                               "models and transducers; the model is one of the taggers"));
  EXPECT_THAT(fault, HasSubstr("options.word_reward"));
  options.clear_no_repeat_ngram();
  options.clear_word_reward();
  const auto answer = Started()->DecodeAndWait(model, Text("ab"), options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->hypotheses(0).text(), "N N");
}

TEST(TagsTest, TransitionsThatDoNotFitAreRefused) {
  const auto fault = [](const std::string& transitions) {
    return std::string(DecodeModel::Compile(TagBundle(transitions)).status().message());
  };
  EXPECT_THAT(fault("0 1 -1\n2 0\n"),
              HasSubstr("crf.txt: line 2 has 2 scores; 5 lines of 3 are needed"));
  EXPECT_THAT(fault(std::string(kCrf) + "1 1 1\n"), HasSubstr("line 6 has 3 scores"));
  EXPECT_THAT(fault("0 1 -1\n2 0 0\n"), HasSubstr("crf.txt: has 2 lines; 5 of 3 scores"));
  EXPECT_THAT(fault("0 1 nan\n"), HasSubstr("line 1: 'nan' is no score"));
  bundle::Bundle bundle = TagBundle();
  bundle.target = Codec(bundle.config.target(), "N\nV\n");
  EXPECT_THAT(DecodeModel::Compile(std::move(bundle)).status().message(),
              HasSubstr("the target vocabulary has 2 labels, the encoder's output has 3"));
}

}  // namespace
}  // namespace beamwright::engine
