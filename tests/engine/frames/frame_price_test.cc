// What a request of a search by frames is priced, by counts of its parts.
#include <gtest/gtest.h>

#include "engine/frames/frame_request.h"
#include "engine/frames/frame_request_kinds.h"
#include "engine/options/decode_options.h"
#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/language_model.h"
#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::AddLanguageModel;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::kCells;
using engine_testing::kHidden;
using engine_testing::kJoined;
using engine_testing::kTokens;
using engine_testing::ModelPtr;
using engine_testing::Predictor;
using engine_testing::TransducerBundle;

constexpr int kFrames = 11;
constexpr int64_t kLabelBytes = 64;  // of a hypothesis and frame
constexpr int64_t kHistories = 3;    // of a hypothesis

ModelPtr Transducer(Predictor predictor) {
  engine_testing::TransducerOptions options;
  options.predictor = predictor;
  bundle::Bundle bundle = TransducerBundle(options);
  AddLanguageModel(kTokens, bundle);
  return Compiled(std::move(bundle));
}

template <typename Request>
int64_t Price(const ModelPtr& model, const v1::DecodeOptions& options) {
  const auto resolved = *ResolveOptions(*model, options);
  Request request;
  request.model = model;
  request.source.source_length = kFrames;
  request.plan = resolved->frames;
  request.wants_full_sum = resolved->merged.full_sum();
  request.SetUpScorers();
  request.is_answered = true;  // there is no callback
  return PriceFrames(request);
}

v1::DecodeOptions Beam(int beam_size, int n_best = 1) {
  v1::DecodeOptions options;
  options.set_beam_size(beam_size);
  options.set_n_best(n_best);
  return options;
}

TEST(FramePriceTest, AHypothesisCostsItsLabelsAndItsHistories) {
  const ModelPtr ctc = Compiled(CtcBundle({}));
  EXPECT_EQ(Price<CtcRequest>(ctc, Beam(3)) - Price<CtcRequest>(ctc, Beam(2)),
            kLabelBytes * kFrames);
  // An LSTM's h and c, a stateless one's two tokens, and the output's part of the joined sum.
  const std::pair<Predictor, int64_t> slots[] = {{Predictor::kLstm, (2 * kHidden + kJoined) * 4},
                                                 {Predictor::kStateless, (2 + kJoined) * 4}};
  for (const auto& [predictor, slot_bytes] : slots) {
    const ModelPtr model = Transducer(predictor);
    EXPECT_EQ(Price<TransducerRequest>(model, Beam(3)) - Price<TransducerRequest>(model, Beam(2)),
              kLabelBytes * kFrames + kHistories * slot_bytes);
    // With a language model, its scores and its state as well.
    v1::DecodeOptions fused[2] = {Beam(2), Beam(3)};
    for (v1::DecodeOptions& options : fused) {
      v1::FusionWeight& fusion = *options.add_fusion();
      fusion.set_name("lm");
      fusion.set_weight(0.5);
    }
    EXPECT_EQ(Price<TransducerRequest>(model, fused[1]) - Price<TransducerRequest>(model, fused[0]),
              kLabelBytes * kFrames + kHistories * (slot_bytes + kTokens * 4 + kCells * 4));
  }
}

// Of each answer the forward algorithm over its labels, of which there may be as many as frames: in
// each of 2 n + 1 states two sums and two of the best path, and a byte for each frame; a float for
// each label and frame.
TEST(FramePriceTest, FullSumsAreThoseOfAllAnswers) {
  constexpr int64_t kAnswer = (2 * kFrames + 1) * (4 * 8 + kFrames) + kFrames * kFrames * 4;
  const ModelPtr model = Compiled(CtcBundle({}));
  for (const int n_best : {1, 3}) {
    v1::DecodeOptions options = Beam(4, n_best);
    const int64_t plain = Price<CtcRequest>(model, options);
    options.set_full_sum(true);
    EXPECT_EQ(Price<CtcRequest>(model, options) - plain, n_best * kAnswer);
  }
}

}  // namespace
}  // namespace beamwright::engine
