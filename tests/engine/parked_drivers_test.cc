// Buffers of a model that has nothing to do: who gets them, and when they go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "engine/beam/beam_request.h"
#include "engine/options/decode_options.h"
#include "engine/request/request.h"
#include "engine/schedule/encode.h"
#include "include/beamwright/engine.h"
#include "ops/base/steady_time.h"
#include "tests/engine/fused_bundle.h"
#include "tests/ops/loop/counted_allocations.h"

namespace beamwright::engine {
namespace {

using engine_testing::FusedBundle;
using ModelPtr = std::shared_ptr<const DecodeModel>;

ModelPtr Compiled() {
  auto model = DecodeModel::Compile(FusedBundle({1, v1::ENSEMBLE_MEAN_PROBS}));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<Driver> TakeOrMake(ModelPtr model) {
  std::unique_ptr<Driver> driver = ParkedDrivers::Take(model);
  return driver != nullptr ? std::move(driver) : model->search().MakeDriver(model);
}

v1::DecodeOptions Options() {
  v1::DecodeOptions options;
  options.set_beam_size(4);
  options.set_n_best(2);
  options.set_max_length(8);
  options.set_stop(v1::STOP_MODE_NEVER);
  return options;
}

v1::Source Ids(int count) {
  v1::Source source;
  for (int i = 0; i < count; ++i) {
    source.mutable_ids()->add_ids(i % engine_testing::kSourceIds);
  }
  return source;
}

struct Outcome {
  v1::Decoded decoded;
  int64_t allocations = 0;  // of all steps
};

// One request from its first step to its last.
Outcome Decode(const ModelPtr& model, Driver& driver, int source_length, int64_t price_bytes = 1) {
  Outcome outcome;
  auto request = std::make_unique<BeamRequest>();
  request->model = model;
  request->source = *PrepareSource(*model, Ids(source_length));
  request->search.emplace(*search::BeamSearch::Create(
      *OptionsForSource(*model, **ResolveOptions(*model, Options()), request->source)));
  request->beam_size = Options().beam_size();
  request->price_bytes = price_bytes;
  request->done = DecodeCallback([&outcome](absl::StatusOr<v1::Decoded> decoded) {
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    outcome.decoded = *std::move(decoded);
  });
  request->SetUpDecoders();
  const ops::ExecutionContext context;
  EncodeGroup group;
  group.requests.push_back(std::move(request));
  for (auto& ready : Encode(context, absl::MakeSpan(&group, 1))) {
    driver.Join(std::move(ready));
  }
  while (!driver.idle()) {
    testing_support::CountAllocations();
    driver.Step(context);
    outcome.allocations += testing_support::StopCounting().count;
  }
  return outcome;
}

std::vector<int> Tokens(const v1::Decoded& decoded) {
  std::vector<int> tokens;
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    tokens.insert(tokens.end(), hypothesis.tokens().begin(), hypothesis.tokens().end());
  }
  return tokens;
}

TEST(ParkedDrivers, NextRequestFindsTheBuffersOfTheLast) {
  const ModelPtr model = Compiled();
  std::unique_ptr<Driver> driver = TakeOrMake(model);
  const Driver* const first = driver.get();
  const Outcome fresh = Decode(model, *driver, 12);
  // A longer source and a shorter one between them: nothing of a request may stay behind.
  Decode(model, *driver, 20);
  Decode(model, *driver, 3);
  ParkedDrivers::Park(std::move(driver));
  driver = TakeOrMake(model);
  EXPECT_EQ(driver.get(), first);
  const Outcome again = Decode(model, *driver, 12);
  EXPECT_EQ(Tokens(again.decoded), Tokens(fresh.decoded));
  EXPECT_EQ(again.decoded.hypotheses(0).score(), fresh.decoded.hypotheses(0).score());
  if (testing_support::AllocationsAreCounted()) {
    EXPECT_LT(again.allocations, fresh.allocations * 2 / 3);
  }
}

TEST(ParkedDrivers, EachHasItsOwnWhileItWorks) {
  const ModelPtr model = Compiled();
  std::unique_ptr<Driver> one = TakeOrMake(model);
  std::unique_ptr<Driver> other = TakeOrMake(model);
  EXPECT_NE(one, other);
  ParkedDrivers::Park(std::move(one));
  ParkedDrivers::Park(std::move(other));
  EXPECT_NE(TakeOrMake(model), TakeOrMake(model));
}

TEST(ParkedDrivers, GoWithTheirModel) {
  ModelPtr model = Compiled();
  const std::weak_ptr<const DecodeModel> lives = model;
  std::unique_ptr<Driver> driver = TakeOrMake(model);
  Decode(model, *driver, 5);
  ParkedDrivers::Park(std::move(driver));
  model = nullptr;
  EXPECT_TRUE(lives.expired());
  // The driver may also be the last who holds it.
  model = Compiled();
  const std::weak_ptr<const DecodeModel> other = model;
  driver = TakeOrMake(std::move(model));
  EXPECT_FALSE(other.expired());
  ParkedDrivers::Park(std::move(driver));
  EXPECT_TRUE(other.expired());
}

TEST(ParkedDrivers, LargeOnesAreNotKept) {
  const ModelPtr model = Compiled();
  for (const int64_t more : {0, 1}) {
    std::unique_ptr<Driver> driver = TakeOrMake(model);
    Decode(model, *driver, 5, ParkedDrivers::kMostParkedBytes + more);
    Decode(model, *driver, 5);  // what it once needed counts
    ParkedDrivers::Park(std::move(driver));
    EXPECT_EQ(TakeOrMake(model)->most_bytes() > 0, more == 0);
  }
}

// An engine that runs on holds nothing of a model that is unloaded.
TEST(ParkedDrivers, AnIdleEngineHoldsNoModel) {
  EngineOptions options;
  options.num_threads = 1;
  const auto engine = *Engine::Start(options);
  ModelPtr model = Compiled();
  const std::weak_ptr<const DecodeModel> lives = model;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(engine->DecodeAndWait(model, Ids(4), Options()).ok());
  }
  model = nullptr;
  // The engine's thread may be a moment behind its answer.
  for (const absl::Time end = SteadyNow() + absl::Minutes(1);
       !lives.expired() && SteadyNow() < end;) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(lives.expired());
}

}  // namespace
}  // namespace beamwright::engine
