// What is wrong with a source, with options or with a bundle of a CTC model is reported by its
// field, and harms no other request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/synchronization/blocking_counter.h"
#include "ops/base/steady_time.h"
#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/frames/frame_models.h"

namespace beamwright::engine {
namespace {

using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::FaultOf;
using engine_testing::FeatureSource;
using engine_testing::kColumns;
using engine_testing::kFeatures;
using engine_testing::ModelPtr;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using ::testing::HasSubstr;

TEST(CtcFaultsTest, SourcesAreRefusedByTheirField) {
  CompileOptions compile;
  compile.max_source_length = 50;
  const ModelPtr encoded = Compiled(CtcBundle({}), compile);
  const ModelPtr framed = Compiled(CtcBundle({false, false, 0}), compile);
  v1::Source text;
  text.set_text("a");
  EXPECT_THAT(FaultOf(encoded, text), HasSubstr("source.text: the encoder takes features"));
  EXPECT_THAT(FaultOf(framed, text),
              HasSubstr("source.text: the model has no encoder; send the frames as features"));
  v1::Source inputs;
  inputs.mutable_decoder_inputs();
  EXPECT_THAT(FaultOf(framed, inputs),
              HasSubstr("source.decoder_inputs: the model has no decoder"));
  EXPECT_THAT(FaultOf(encoded, inputs),
              HasSubstr("source.decoder_inputs: the model has an encoder"));
  const std::vector<float> eight(8);
  EXPECT_THAT(FaultOf(encoded, FeatureSource(eight, 4)),
              HasSubstr("source.features.shape: [2, 4]"));
  EXPECT_THAT(FaultOf(framed, FeatureSource(eight, 4)),
              HasSubstr("source.features.shape: [2, 4]; frames are f32 [frames, 5]"));
  v1::Source wrong_type = FeatureSource(eight, 4);
  wrong_type.mutable_features()->set_dtype("i32");
  EXPECT_THAT(FaultOf(framed, wrong_type), HasSubstr("source.features.dtype: i32; frames are f32"));
  for (const ModelPtr& model : {encoded, framed}) {
    const int width = model == encoded ? kFeatures : kColumns;
    EXPECT_THAT(FaultOf(model, FeatureSource({}, width)), HasSubstr("source is empty"));
    EXPECT_THAT(
        FaultOf(model, FeatureSource(std::vector<float>(51 * static_cast<size_t>(width)), width)),
        HasSubstr("at most 50 are allowed"));
    std::vector<float> values(3 * static_cast<size_t>(width), -2);
    values[4] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(FaultOf(model, FeatureSource(values, width)),
                HasSubstr("source.features.data: element 4 is nan"));
  }
  std::vector<float> above(2 * kColumns, -2);
  above[7] = 0.5;
  EXPECT_THAT(FaultOf(framed, FeatureSource(above, kColumns)),
              HasSubstr("source.features: frame 1"));
}

TEST(CtcFaultsTest, AWrongSourceHarmsNobodyElse) {
  const ModelPtr model = Compiled(CtcBundle({false, false, 0}));
  const auto engine = Started();
  const v1::Source good = FeatureSource(std::vector<float>(20 * kColumns, -1.6094f), kColumns);
  std::vector<float> values(20 * kColumns, -2);
  values[77] = 3;
  const v1::Source bad = FeatureSource(values, kColumns);
  constexpr int kSources = 30;
  absl::BlockingCounter open(kSources);
  std::vector<absl::StatusOr<v1::Decoded>> answers(kSources);
  for (size_t i = 0; i < kSources; ++i) {
    engine->Decode(model, i % 3 == 0 ? bad : good, {}, {}, [&, i](auto answer) {
      answers[i] = std::move(answer);
      open.DecrementCount();
    });
  }
  open.Wait();
  const auto alone = Started()->DecodeAndWait(model, good, v1::DecodeOptions());
  ASSERT_TRUE(alone.ok());
  for (size_t i = 0; i < kSources; ++i) {
    ASSERT_EQ(answers[i].ok(), i % 3 != 0) << answers[i].status();
    if (answers[i].ok()) {
      EXPECT_EQ(answers[i]->hypotheses(0).SerializeAsString(),
                alone->hypotheses(0).SerializeAsString());
    }
  }
}

TEST(CtcFaultsTest, OptionsOfOtherSearchesAreRefusedByName) {
  const ModelPtr model = Compiled(CtcBundle({}));
  const v1::Source source = FeatureSource(RandomFeatures(3, 1));
  v1::DecodeOptions options;
  options.set_stop(v1::STOP_MODE_SAFE);
  options.set_lattice(false);
  options.set_max_symbols_per_frame(2);
  const std::string fault = FaultOf(model, source, options);
  EXPECT_THAT(fault,
              HasSubstr("options.stop: is for models with a decoder; the model is one of the "
                        "CTC models"));
  EXPECT_THAT(fault, HasSubstr("options.lattice: is for models with a decoder"));
  EXPECT_THAT(fault, HasSubstr("options.max_symbols_per_frame: is for transducers"));
  options.Clear();
  options.set_recombine(v1::RECOMBINE_NONE);
  options.set_n_best(5);
  options.set_beam_size(3);
  options.mutable_suppress_tokens()->mutable_ids()->add_ids(kColumns);
  options.mutable_target_prefix()->mutable_ids()->add_ids(0);
  const std::string own = FaultOf(model, source, options);
  EXPECT_THAT(own, HasSubstr("options.recombine: none is for transducers"));
  EXPECT_THAT(own, HasSubstr("options.n_best: 5 is more than the beam size of 3"));
  EXPECT_THAT(own, HasSubstr("options.suppress_tokens.ids[0]: 5 is outside [0, 5)"));
  EXPECT_THAT(own, HasSubstr("options.target_prefix: token 0 is the blank"));
  options.Clear();
  options.set_blank_penalty(101);
  EXPECT_THAT(FaultOf(model, source, options),
              HasSubstr("options.blank_penalty: 101 is outside [-100, 100] nats"));
  v1::ScoreSource scored;
  *scored.mutable_source() = source;
  scored.add_targets()->mutable_ids()->add_ids(0);
  v1::ScoreOptions score;
  EXPECT_THAT(std::string(Started()->ScoreAndWait(model, scored, score).status().message()),
              HasSubstr("targets[0]: token 0 is the blank"));
  score.set_end_token(false);
  EXPECT_THAT(std::string(Started()->ScoreAndWait(model, scored, score).status().message()),
              HasSubstr("options.end_token: is for models with a decoder"));
}

TEST(CtcFaultsTest, ARequestThatIsTooLargeSaysSo) {
  const ModelPtr model = Compiled(CtcBundle({}));
  const auto engine = Started(/*max_bytes=*/20000);
  EXPECT_TRUE(
      engine->DecodeAndWait(model, FeatureSource(RandomFeatures(10, 1)), v1::DecodeOptions()).ok());
  const auto refused =
      engine->DecodeAndWait(model, FeatureSource(RandomFeatures(100, 1)), v1::DecodeOptions());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("lower the source's length (100)"));
  engine->Drain();
  EXPECT_EQ(engine->load().bytes, 0);
}

TEST(CtcFaultsTest, DeadlinesAndTheEndAreKept) {
  const ModelPtr model = Compiled(CtcBundle({}));
  const v1::Source source = FeatureSource(RandomFeatures(50000, 1));
  CallOptions call;
  call.deadline = SteadyNow() - absl::Seconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Started()->DecodeAndWait(model, source, v1::DecodeOptions(), call).status()));
  // Ended once the first frames were read: it answers what it has.
  const auto engine = Started();
  absl::BlockingCounter begun(1);
  absl::BlockingCounter open(1);
  absl::StatusOr<v1::Decoded> answer;
  CallOptions streamed;
  bool is_first = true;
  streamed.num_provisional = 1;
  streamed.progress = [&](Progress) {
    if (is_first) {
      is_first = false;
      begun.DecrementCount();
    }
  };
  v1::DecodeOptions options;
  options.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  engine->Decode(model, source, options, streamed, [&](auto decoded) {
    answer = std::move(decoded);
    open.DecrementCount();
  });
  begun.Wait();
  engine->End(absl::AbortedError("the end"));
  open.Wait();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->hypotheses(0).tokens().empty());
  EXPECT_THAT(answer->hypotheses(0).finish_reason(),
              ::testing::AnyOf(v1::FINISH_REASON_SHUTDOWN, v1::FINISH_REASON_END_OF_SOURCE));
}

TEST(CtcFaultsTest, BundlesAreRefusedWithTheReason) {
  const auto refusal = [](const std::function<void(bundle::Bundle&)>& change) {
    bundle::Bundle bundle = CtcBundle({});
    change(bundle);
    const auto model = DecodeModel::Compile(std::move(bundle), {});
    EXPECT_FALSE(model.ok());
    return std::string(model.status().message());
  };
  EXPECT_THAT(refusal([](bundle::Bundle& b) { b.config.mutable_ctc()->set_blank(9); }),
              HasSubstr("ctc.blank: 9 is outside [0, 5), the columns of 'scores'"));
  EXPECT_THAT(
      refusal([](bundle::Bundle& b) { b.config.mutable_ctc()->set_encoder_output("logits"); }),
      HasSubstr("ctc.encoder_output: the encoder has no result 'logits'; it has 'scores'"));
  EXPECT_THAT(
      refusal([](bundle::Bundle& b) {
        b.target = engine_testing::Codec(b.config.target(), "_\na\nb\n");
      }),
      HasSubstr("the target vocabulary has 3 tokens, and there are 5 columns with the blank "
                "in column 0"));
  EXPECT_THAT(refusal([](bundle::Bundle& b) {
                b.config.mutable_default_options()->set_beam_size(2);
                b.config.mutable_default_options()->set_recombine(v1::RECOMBINE_NONE);
              }),
              HasSubstr("default_options.recombine"));
}

}  // namespace
}  // namespace beamwright::engine
