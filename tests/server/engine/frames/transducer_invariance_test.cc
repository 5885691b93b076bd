// Promise 1 for transducers: the bits of an answer follow from the request alone, whatever is
// decoded beside it, on however many threads and streams, in each precision, and in files of 8 bits
// whose scales are taken while they run.
#include <gtest/gtest.h>

#include "absl/synchronization/blocking_counter.h"
#include "tests/server/engine/frames/transducer_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::FeatureSource;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;
using ModelPtr = std::shared_ptr<const DecodeModel>;

constexpr int kSources = 14;

std::string Bits(const v1::Decoded& decoded) {
  std::string bits;
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    bits += hypothesis.SerializeAsString();
  }
  return bits;
}

v1::DecodeOptions OptionsOf(int number) {
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

v1::Source SourceOf(int number) {
  return FeatureSource(RandomFeatures(1 + number * 7 % 20, static_cast<uint32_t>(number)));
}

std::vector<std::string> DecodeTogether(const ModelPtr& model, int threads, int streams) {
  EngineOptions options;
  options.num_threads = threads;
  options.num_streams = streams;
  const auto engine = *Engine::Start(options);
  std::vector<std::string> answers(kSources);
  absl::BlockingCounter open(kSources);
  for (int i = 0; i < kSources; ++i) {
    engine->Decode(model, SourceOf(i), OptionsOf(i), {}, [&, i](auto answer) {
      EXPECT_TRUE(answer.ok()) << answer.status();
      answers[static_cast<size_t>(i)] = answer.ok() ? Bits(*answer) : "";
      open.DecrementCount();
    });
  }
  open.Wait();
  return answers;
}

void ExpectSameBits(const ModelPtr& model) {
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->steps_apart(), "");
  EngineOptions alone;
  alone.num_threads = 1;
  const auto engine = *Engine::Start(alone);
  std::vector<std::string> expected;
  for (int i = 0; i < kSources; ++i) {
    const auto answer = engine->DecodeAndWait(model, SourceOf(i), OptionsOf(i));
    ASSERT_TRUE(answer.ok()) << answer.status();
    expected.push_back(Bits(*answer));
  }
  EXPECT_EQ(DecodeTogether(model, 2, 1), expected);
  EXPECT_EQ(DecodeTogether(model, 2, 2), expected);
}

ModelPtr Compiled(model::Bundle bundle, v1::Precision precision) {
  CompileOptions compile;
  compile.precision = precision;
  auto model = DecodeModel::Compile(std::move(bundle), compile);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

class TransducerInvarianceTest : public ::testing::TestWithParam<v1::Precision> {};

TEST_P(TransducerInvarianceTest, NeighboursThreadsAndStreamsChangeNoBit) {
  for (const Predictor predictor : {Predictor::kLstm, Predictor::kStateless}) {
    TransducerOptions options;
    options.predictor = predictor;
    ExpectSameBits(Compiled(TransducerBundle(options), GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TransducerInvarianceTest,
                         ::testing::Values(v1::PRECISION_F32, v1::PRECISION_INT8,
                                           v1::PRECISION_BF16));

// The joiner's output as quantize_dynamic leaves it: a scale over the whole batch.
TEST(TransducerInt8Test, ScalesThatAFileTakesOfABatchAreTakenOfRows) {
  TransducerOptions options;
  options.quantizes = true;
  ExpectSameBits(Compiled(TransducerBundle(options), v1::PRECISION_F32));
}

}  // namespace
}  // namespace beamwright::engine
