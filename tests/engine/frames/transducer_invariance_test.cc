// Promise 1 for transducers: the bits of an answer follow from the request alone, whatever is
// decoded with it, on however many threads and streams, in each precision, and in files of 8 bits
// whose scales are taken while they run.
#include <gtest/gtest.h>

#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::FeatureSource;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;

constexpr int kSources = 14;

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

void ExpectSameBitsOf(const TransducerOptions& options, v1::Precision precision) {
  CompileOptions compile;
  compile.precision = precision;
  const auto model = engine_testing::Compiled(TransducerBundle(options), compile);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->steps_apart(), "");
  engine_testing::ExpectSameBits(model, {kSources, SourceOf, OptionsOf}, {{2, 1}, {2, 2}});
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
