// Answers of searches by frames depend on the request alone.

#include <gtest/gtest.h>

#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine {

// Promise 1 for CTC models: the bits of an answer follow from the request alone, whatever is
// decoded with it, on however many threads and streams.

namespace {

using engine_testing::Bits;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::ExpectSameBits;
using engine_testing::FeatureSource;
using engine_testing::RandomFeatures;

v1::DecodeOptions OptionsOf(int number) {
  v1::DecodeOptions options;
  options.set_beam_size(1 + number % 7);
  options.set_n_best(1 + number % (1 + number % 7));
  options.set_full_sum(number % 2 == 0);
  if (number % 3 == 0) {
    v1::Hotword& hotword = *options.add_hotwords();
    hotword.mutable_ids()->add_ids(1 + number % 4);
    hotword.set_bonus(2);
  }
  options.set_blank_penalty(static_cast<float>(number % 5) / 4);
  return options;
}

v1::Source SourceOf(int number) {
  return FeatureSource(RandomFeatures(1 + number * 7 % 90, static_cast<uint32_t>(number)));
}

TEST(CtcInvarianceTest, NeighboursThreadsAndStreamsChangeNoBit) {
  for (const v1::Precision precision : {v1::PRECISION_F32, v1::PRECISION_INT8}) {
    CompileOptions compile;
    compile.precision = precision;
    ExpectSameBits(Compiled(CtcBundle({}), compile), {40, SourceOf, OptionsOf},
                   {{1, 1}, {3, 1}, {4, 2}});
  }
}

TEST(CtcInvarianceTest, AStreamTellsTheBeginningOfTheAnswer) {
  const auto model = DecodeModel::Compile(CtcBundle({}), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EngineOptions options;
  options.num_threads = 1;
  const auto engine = *Engine::Start(options);
  for (int i = 0; i < 10; ++i) {
    std::vector<int32_t> told;
    CallOptions call;
    call.progress = [&](const Progress& progress) {
      for (const auto& piece : progress.stable) {
        EXPECT_EQ(piece.position, told.size());
        told.insert(told.end(), piece.tokens.begin(), piece.tokens.end());
      }
    };
    v1::DecodeOptions decode;
    decode.set_n_best(4);
    const v1::Source source = FeatureSource(RandomFeatures(200, static_cast<uint32_t>(i)));
    const auto answer = engine->DecodeAndWait(*model, source, decode, call);
    ASSERT_TRUE(answer.ok());
    EXPECT_FALSE(told.empty());
    for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
      ASSERT_GE(hypothesis.tokens_size(), told.size());
      EXPECT_TRUE(std::equal(told.begin(), told.end(), hypothesis.tokens().begin()));
    }
    EXPECT_EQ(Bits(*answer), Bits(*engine->DecodeAndWait(*model, source, decode)));
  }
}

}  // namespace

// Promise 1 for transducers: the bits of an answer follow from the request alone, whatever is
// decoded with it, on however many threads and streams, in each precision, and in files of 8 bits
// whose scales are taken while they run.

namespace {

using engine_testing::FeatureSource;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;

constexpr int kSources = 14;

v1::DecodeOptions TransducerOptionsOf(int number) {
  v1::DecodeOptions options;
  options.set_beam_size(1 + number % 5);
  options.set_n_best(1 + number % (1 + number % 5));
  options.set_full_sum(number % 4 == 0);
  options.set_max_symbols_per_frame(1 + number % 3);
  if (number % 7 == 0) {
    options.clear_max_symbols_per_frame();
    options.set_frame_order(v1::FRAME_ORDER_ALIGNMENTS);
  }
  if (number % 3 == 0) {
    options.add_hotwords()->mutable_ids()->add_ids(1 + number % 3);
  }
  options.set_temperature(number % 2 == 0 ? 1.0f : 1.5f);
  return options;
}

v1::Source TransducerSourceOf(int number) {
  return FeatureSource(RandomFeatures(1 + number * 7 % 20, static_cast<uint32_t>(number)));
}

void ExpectSameBitsOf(const TransducerOptions& options, v1::Precision precision) {
  CompileOptions compile;
  compile.precision = precision;
  const auto model = engine_testing::Compiled(TransducerBundle(options), compile);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->steps_apart(), "");
  engine_testing::ExpectSameBits(model, {kSources, TransducerSourceOf, TransducerOptionsOf},
                                 {{2, 1}, {2, 2}});
}

class TransducerInvarianceTest : public ::testing::TestWithParam<v1::Precision> {};

TEST_P(TransducerInvarianceTest, NeighboursThreadsAndStreamsChangeNoBit) {
  for (const Predictor predictor : {Predictor::kLstm, Predictor::kStateless}) {
    TransducerOptions options;
    options.predictor = predictor;
    ExpectSameBitsOf(options, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TransducerInvarianceTest,
                         ::testing::Values(v1::PRECISION_F32, v1::PRECISION_INT8,
                                           v1::PRECISION_BF16));

// The joiner's output as quantize_dynamic leaves it: a scale over the whole batch.
TEST(TransducerInt8Test, ScalesThatAFileTakesOfABatchAreTakenOfRows) {
  TransducerOptions options;
  options.quantizes = true;
  ExpectSameBitsOf(options, v1::PRECISION_F32);
}

}  // namespace

}  // namespace beamwright::engine
