// A steady step of the beam driver with options on allocates nothing: memory is bought when a
// request starts and while histories grow.
#include <gtest/gtest.h>

#include "engine/beam/beam_driver.h"
#include "engine/options/decode_options.h"
#include "engine/schedule/encode.h"
#include "tests/engine/fused_bundle.h"
#include "tests/ops/loop/counted_allocations.h"

namespace beamwright::engine {
namespace {

using engine_testing::FusedBundle;
using testing_support::CountAllocations;
using testing_support::StopCounting;

constexpr int kLength = 60;

void SetIds(const std::vector<int32_t>& ids, v1::TargetTokens* tokens) {
  tokens->mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
}

v1::DecodeOptions Plain() {
  v1::DecodeOptions options;
  options.set_beam_size(6);
  options.set_n_best(3);
  options.set_max_length(kLength);
  options.set_stop(v1::STOP_MODE_NEVER);
  return options;
}

v1::DecodeOptions WithProcessors() {
  v1::DecodeOptions options = Plain();
  options.set_repetition_penalty(1.1f);
  options.set_no_repeat_ngram(6);
  SetIds({3}, options.mutable_suppress_tokens());
  SetIds({2, 4}, options.add_suppress_sequences());
  options.set_min_length(10);
  options.set_temperature(0.9f);
  v1::Hotword& hotword = *options.add_hotwords();
  hotword.mutable_ids()->add_ids(2);
  hotword.mutable_ids()->add_ids(5);
  return options;
}

v1::DecodeOptions WithConstraints() {
  v1::DecodeOptions options = Plain();
  SetIds({2, 4, 5, 6}, options.mutable_shortlist());
  SetIds({2, 4}, options.add_required_sequences());
  return options;
}

v1::DecodeOptions WithScorers() {
  v1::DecodeOptions options = Plain();
  for (const char* name : {"lm", "ngram", "ctc"}) {
    v1::FusionWeight& fusion = *options.add_fusion();
    fusion.set_name(name);
    fusion.set_weight(0.25f);
  }
  return options;
}

std::unique_ptr<Request> MakeRequest(const std::shared_ptr<const DecodeModel>& model,
                                     const v1::DecodeOptions& options) {
  auto request = std::make_unique<BeamRequest>();
  v1::Source source;
  for (int i = 0; i < 3 * kLength; ++i) {
    source.mutable_ids()->add_ids(i % engine_testing::kSourceIds);
  }
  request->model = model;
  request->source = *PrepareSource(*model, source);
  const auto resolved = ResolveOptions(*model, options);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  request->search.emplace(
      *search::BeamSearch::Create(*OptionsForSource(*model, **resolved, request->source)));
  request->beam_size = options.beam_size();
  request->done = DecodeCallback([](const absl::StatusOr<v1::Decoded>&) {});
  request->SetUpDecoders();
  return request;
}

TEST(SteadyStepTest, AllocatesNothingWhateverTheOptions) {
  if (!testing_support::AllocationsAreCounted()) {
    GTEST_SKIP() << "sanitizers allocate by themselves";
  }
  const auto model = DecodeModel::Compile(FusedBundle({1, v1::ENSEMBLE_MEAN_PROBS}));
  ASSERT_TRUE(model.ok()) << model.status();
  const ops::ExecutionContext context;
  const v1::DecodeOptions all[] = {Plain(), WithProcessors(), WithConstraints(), WithScorers()};
  for (const v1::DecodeOptions& options : all) {
    SCOPED_TRACE(options.ShortDebugString());
    BeamDriver driver(*model);
    EncodeGroup group;
    group.requests.push_back(MakeRequest(*model, options));
    for (auto& request : Encode(context, absl::MakeSpan(&group, 1))) {
      driver.Join(std::move(request));
    }
    for (int step = 0; step < kLength - 1; ++step) {
      ASSERT_FALSE(driver.idle()) << step;
      CountAllocations();
      driver.Step(context);
      const auto counted = StopCounting();
      // Until then lists find their sizes; histories double at 32 tokens.
      if (step > 20 && step != 31 && step != 32) {
        EXPECT_EQ(counted.count, 0) << "step " << step << ", called from" << counted.callers;
      }
    }
  }
}

}  // namespace
}  // namespace beamwright::engine
