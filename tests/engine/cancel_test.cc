// O13: a request that is given up at any of its steps leaves nothing behind, and changes nothing
// for its neighbour.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "include/beamwright/engine.h"
#include "tests/engine/fused_bundle.h"

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
  void OnStep(const DecodeModel&, const StepFacts& facts) override {
    absl::MutexLock lock(&mutex_);
    rows_.push_back(facts.num_rows);
    if (++step_ == at_) {
      flag_->Cancel();
    }
  }
  void OnCancelled(const DecodeModel&, int steps, absl::Duration after) override {
    absl::MutexLock lock(&mutex_);
    released_.push_back(steps);
    EXPECT_GE(after, absl::ZeroDuration());
  }
  std::shared_ptr<const CancelFlag> Arm(int at) {
    absl::MutexLock lock(&mutex_);
    step_ = 0;
    at_ = at;
    rows_.clear();
    released_.clear();
    flag_ = std::make_shared<CancelFlag>();
    if (at == 0) {
      flag_->Cancel();
    }
    return flag_;
  }
  // Of each step since then: the rows that it had.
  std::vector<int> rows() {
    absl::MutexLock lock(&mutex_);
    return rows_;
  }
  // What was reported of cancelled requests: the steps that they took part in afterwards.
  std::vector<int> released() {
    absl::MutexLock lock(&mutex_);
    return released_;
  }

 private:
  absl::Mutex mutex_;
  int step_ ABSL_GUARDED_BY(mutex_) = 0;
  int at_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> rows_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> released_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<CancelFlag> flag_ ABSL_GUARDED_BY(mutex_) = std::make_shared<CancelFlag>();
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
  EXPECT_EQ(engine->load().bytes, 0);
  EXPECT_EQ(engine->load().rows, 0);
  EXPECT_EQ(engine->load().waiting, 0);
}

// Its rows are free at the step after the one that it was cancelled in.
TEST(CancelTest, RowsAreFreeWithinOneStep) {
  const auto model =
      DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
  ASSERT_TRUE(model.ok()) << model.status();
  CancelAt cancel;
  EngineOptions engine_options;
  engine_options.num_threads = 1;
  engine_options.observer = &cancel;
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_max_length(12);
  options.set_stop(v1::STOP_MODE_NEVER);
  for (int at = 1; at < 10; ++at) {
    const auto engine = *Engine::Start(engine_options);  // no step of an earlier request is left
    CallOptions call;
    call.cancelled = cancel.Arm(at);
    EXPECT_TRUE(
        absl::IsCancelled(engine->DecodeAndWait(*model, Ids({5, 6}), options, call).status()));
    // The engine answers within the step that finds it cancelled; the next turn is behind it.
    EXPECT_TRUE(engine->DecodeAndWait(*model, Ids({4}), v1::DecodeOptions()).ok());
    EXPECT_THAT(cancel.released(), testing::ElementsAre(1)) << "step " << at;
    const std::vector<int> rows = cancel.rows();
    for (int step = 0; step <= at; ++step) {
      // The step that finds it had its rows when it began.
      EXPECT_EQ(rows[static_cast<size_t>(step)], 3) << "step " << step << " of " << at;
    }
    EXPECT_NE(rows[static_cast<size_t>(at) + 1], 3) << "step " << at;
  }
}

}  // namespace
}  // namespace beamwright::engine
