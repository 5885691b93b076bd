// What is wrong with a source, options or a bundle is reported by its field, for transducers and,
// where one code serves both, for CTC; neighbours are unharmed. ctc_faults_test.cc has the rest of
// CTC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::FaultOf;
using engine_testing::FeatureSource;
using engine_testing::kWidth;
using engine_testing::ModelPtr;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;
using ::testing::HasSubstr;

ModelPtr Transducer(bool has_encoder, const CompileOptions& compile = {}) {
  TransducerOptions options;
  options.predictor = Predictor::kStateless;
  options.has_encoder = has_encoder;
  return Compiled(TransducerBundle(options), compile);
}

TEST(FrameFaultsTest, ATransducersSourcesAreRefusedByTheirField) {
  CompileOptions compile;
  compile.max_source_length = 50;
  for (const bool has_encoder : {true, false}) {
    SCOPED_TRACE(has_encoder);
    const ModelPtr model = Transducer(has_encoder, compile);
    EXPECT_THAT(FaultOf(model, FeatureSource(std::vector<float>(8), 4)),
                HasSubstr("source.features.shape: [2, 4]"));
    EXPECT_THAT(FaultOf(model, FeatureSource({}, kWidth)), HasSubstr("source is empty"));
    std::vector<float> values(3 * kWidth, 0.5f);
    values[4] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(FaultOf(model, FeatureSource(values)),
                HasSubstr("source.features.data: element 4 is nan"));
    EXPECT_THAT(FaultOf(model, FeatureSource(RandomFeatures(51, 1))),
                HasSubstr("at most 50 are allowed"));
    v1::Source text;
    text.set_text("a");
    EXPECT_THAT(FaultOf(model, text), HasSubstr("source.text: the "));
  }
}

// A million frames are refused by the limit or by their price, before any of them is searched.
TEST(FrameFaultsTest, AMillionFramesAreRefusedOrPriced) {
  const std::vector<float> million(size_t{1'000'000} * kWidth);
  CompileOptions compile;
  compile.max_source_length = 1000;
  EXPECT_THAT(FaultOf(Transducer(false, compile), FeatureSource(million)),
              HasSubstr("source.features.shape: source has 1000000 "));
  compile.max_source_length = 2'000'000;
  const auto refused =
      Started(/*max_bytes=*/1 << 20)
          ->DecodeAndWait(Transducer(false, compile), FeatureSource(million), v1::DecodeOptions());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("lower the source's length (1000000)"));
}

// Sampling needs a distribution over what comes next, which no frame has.
TEST(FrameFaultsTest, SamplingIsRefusedByField) {
  v1::DecodeOptions options;
  options.set_sampling(v1::SAMPLING_RANDOM);
  options.set_top_k(3);
  options.set_top_p(0.5);
  options.set_min_p(0.1f);
  options.set_seed(7);
  for (const ModelPtr& model : {Transducer(false), Compiled(CtcBundle({}))}) {
    const std::string fault = FaultOf(model, FeatureSource(RandomFeatures(3, 1)), options);
    for (const char* const field : {"sampling", "top_k", "top_p", "min_p", "seed"}) {
      EXPECT_THAT(fault, HasSubstr(absl::StrCat("options.", field,
                                                ": is for models with a decoder; the model is one "
                                                "of the ")));
    }
  }
}

TEST(FrameFaultsTest, ALexiconThatTheLabelsCannotSpellIsRefused) {
  const auto refusal = [](bundle::Bundle bundle, const std::string& list) {
    v1::TokenListConfig& words = *bundle.config.add_token_lists();
    words.set_name("words");
    words.set_file("words.txt");
    bundle.token_lists["words"] = list;
    return std::string(DecodeModel::Compile(std::move(bundle), {}).status().message());
  };
  for (const bool is_ctc : {false, true}) {
    SCOPED_TRACE(is_ctc);
    const bundle::Bundle bundle = is_ctc ? CtcBundle({}) : TransducerBundle({});
    EXPECT_THAT(refusal(bundle, "a b\nb z\n"), HasSubstr("words.txt: line 2: "));
    EXPECT_THAT(refusal(bundle, "a b\nb z\n"), HasSubstr("'z'"));
    EXPECT_THAT(refusal(bundle, "a\n_ b\n"), HasSubstr("words.txt: line 2: token 0 is the blank"));
    v1::DecodeOptions options;
    options.add_allowed_sequences()->set_text("a b");
    options.add_allowed_sequences()->set_text("b z");
    const std::string fault =
        FaultOf(Compiled(bundle), FeatureSource(RandomFeatures(3, 1)), options);
    EXPECT_THAT(fault, HasSubstr("options.allowed_sequences[1].text: "));
    EXPECT_THAT(fault, HasSubstr("'z'"));
    options.Clear();
    options.set_allowed_list("names");
    EXPECT_THAT(FaultOf(Compiled(bundle), FeatureSource(RandomFeatures(3, 1)), options),
                HasSubstr("options.allowed_list: "));
  }
}

// A joiner that takes logarithms of its frames.
ModelPtr LogJoiner() {
  TransducerOptions options;
  options.predictor = Predictor::kStateless;
  options.has_encoder = false;
  bundle::Bundle bundle = TransducerBundle(options);
  engine_testing::GraphBuilder joiner;
  const auto given = joiner.Parameter("predicted", ops::DType::kF32, {-1, engine_testing::kHidden});
  const auto frame = joiner.Parameter("frame", ops::DType::kF32, {-1, kWidth});
  const engine_testing::Weight of_given("a", engine_testing::kHidden, engine_testing::kTokens);
  const engine_testing::Weight of_frame("b", kWidth, engine_testing::kTokens);
  joiner.Result(
      "scores",
      joiner.Add("Add", {engine_testing::Product(joiner, given, of_given),
                         engine_testing::Product(joiner, joiner.Add("Log", {frame}), of_frame)}));
  bundle.joiner = joiner.Build();
  return Compiled(bundle);
}

// The request with the frame whose scores are NaN fails, and says where; the others answer as if
// they were alone.
TEST(FrameFaultsTest, AFrameWhoseScoresAreNanHarmsNobodyElse) {
  const ModelPtr model = LogJoiner();
  std::vector<float> features = RandomFeatures(9, 5);
  for (float& value : features) {
    value = 1 + value / 2;
  }
  const v1::Source good = FeatureSource(features);
  features[5 * kWidth] = -1;
  const v1::Source bad = FeatureSource(features);
  const auto alone = Started()->DecodeAndWait(model, good, v1::DecodeOptions());
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto engine = Started();
  constexpr size_t kSources = 12;
  absl::BlockingCounter open(kSources);
  std::vector<absl::StatusOr<v1::Decoded>> answers(kSources);
  for (size_t i = 0; i < kSources; ++i) {
    engine->Decode(model, i % 3 == 0 ? bad : good, {}, {}, [&, i](auto answer) {
      answers[i] = std::move(answer);
      open.DecrementCount();
    });
  }
  open.Wait();
  for (size_t i = 0; i < kSources; ++i) {
    if (i % 3 == 0) {
      EXPECT_FALSE(answers[i].ok());
      EXPECT_THAT(std::string(answers[i].status().message()), HasSubstr("frame 5"));
      continue;
    }
    ASSERT_TRUE(answers[i].ok()) << answers[i].status();
    EXPECT_EQ(engine_testing::Bits(*answers[i]), engine_testing::Bits(*alone));
  }
}

}  // namespace
}  // namespace beamwright::engine
