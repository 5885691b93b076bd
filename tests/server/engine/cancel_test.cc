// O13: a request that is given up at any of its steps leaves nothing behind, and changes nothing
// for the one beside it.
#include <gtest/gtest.h>

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/engine.h"
#include "tests/server/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

// Sets a flag behind the engine's step `at`.
class CancelAt : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {}
  // Of a step that answers a request it may come after the answer: the next flag is then set a step
  // early.
  void OnStep(const DecodeModel&, int, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    if (++step_ == at_) {
      *flag_ = true;
    }
  }
  std::shared_ptr<const std::atomic<bool>> Arm(int at) {
    absl::MutexLock lock(&mutex_);
    step_ = 0;
    at_ = at;
    flag_ = std::make_shared<std::atomic<bool>>(at == 0);
    return flag_;
  }

 private:
  absl::Mutex mutex_;
  int step_ ABSL_GUARDED_BY(mutex_) = 0;
  int at_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<std::atomic<bool>> flag_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<std::atomic<bool>>(false);
};

std::string Bytes(absl::StatusOr<v1::Decoded> decoded) {
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok()) {
    return "";
  }
  decoded->clear_queue_ms();
  decoded->clear_compute_ms();
  return decoded->SerializeAsString();
}

TEST(CancelTest, AtEveryStepItLeavesNothingBehind) {
  const auto model =
      DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
  ASSERT_TRUE(model.ok()) << model.status();
  CancelAt cancel;
  EngineOptions engine_options;
  engine_options.num_threads = 1;
  engine_options.observer = &cancel;
  const auto engine = *Engine::Start(engine_options);
  v1::DecodeOptions options;
  constexpr int kSteps = 12;
  options.set_max_length(kSteps);
  options.set_stop(v1::STOP_MODE_NEVER);
  for (const char* name : {"lm", "ngram"}) {
    v1::FusionWeight& fusion = *options.add_fusion();
    fusion.set_name(name);
    fusion.set_weight(0.5f);
  }
  const std::string alone = Bytes(engine->DecodeAndWait(*model, Ids({4, 9}), options));
  for (int at = 0; at < kSteps; ++at) {
    absl::BlockingCounter left(2);
    absl::Status cancelled;
    std::string beside;
    CallOptions call;
    call.cancelled = cancel.Arm(at);
    engine->Decode(*model, Ids({5, 6, 7}), options, call, [&](absl::StatusOr<v1::Decoded> decoded) {
      cancelled = decoded.status();
      left.DecrementCount();
    });
    engine->Decode(*model, Ids({4, 9}), options, {}, [&](absl::StatusOr<v1::Decoded> decoded) {
      beside = Bytes(std::move(decoded));
      left.DecrementCount();
    });
    left.Wait();
    EXPECT_EQ(cancelled.code(), absl::StatusCode::kCancelled) << "step " << at;
    EXPECT_EQ(beside, alone) << "step " << at;
    // Answers are given within a step; the next request sees the engine behind it.
    EXPECT_EQ(Bytes(engine->DecodeAndWait(*model, Ids({4, 9}), options)), alone);
  }
  engine->Drain();
  EXPECT_EQ(engine->load().running, 0);
  EXPECT_EQ(engine->load().rows, 0);
  EXPECT_EQ(engine->load().waiting, 0);
}

}  // namespace
}  // namespace beamwright::engine
