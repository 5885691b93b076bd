// Engine::End: when there is no time left every request is answered at once, and only those that
// agreed to it with what they have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/status/fault.h"
#include "include/beamwright/engine.h"
#include "ops/base/fault_point.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::TableBundle;

constexpr int kHeldAfter = 3;  // steps

// Holds the engine's thread before the first step, until all is asked, and after some steps.
class Holder : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {
    if (num_steps_ == 0) {
      asked.WaitForNotification();
    }
  }
  void OnStep(const DecodeModel&, const StepFacts&) override {
    if (++num_steps_ == kHeldAfter) {
      held.Notify();
      go_on.WaitForNotification();
    }
  }

  absl::Notification asked;
  absl::Notification held;
  absl::Notification go_on;

 private:
  int num_steps_ = 0;
};

class EndTest : public ::testing::Test {
 protected:
  EndTest() : model_(*DecodeModel::Compile(TableBundle(RandomTable(21), {}))) {
    EngineOptions options;
    options.num_threads = 1;
    options.max_rows = 4;
    options.observer = &holder_;
    engine_ = *Engine::Start(options);
  }

  // Searches that go on for as long as they may; two fit at a time.
  void Decode(const std::string& name, v1::DeadlineResult deadline_result) {
    v1::DecodeOptions options;
    options.set_beam_size(2);
    options.set_max_length(100);
    options.set_min_length(50);
    options.set_stop(v1::STOP_MODE_NEVER);
    options.set_deadline_result(deadline_result);
    v1::Source source;
    source.mutable_ids()->add_ids(3);
    engine_->Decode(model_, source, options, {},
                    [this, name](const absl::StatusOr<v1::Decoded>& decoded) {
                      absl::MutexLock lock(&mutex_);
                      answers_.emplace(name, decoded);
                    });
  }

  const std::shared_ptr<const DecodeModel> model_;
  Holder holder_;
  absl::Mutex mutex_;
  std::map<std::string, absl::StatusOr<v1::Decoded>> answers_;
  std::unique_ptr<Engine> engine_;  // its callbacks use the others
};

TEST_F(EndTest, WhatMayBeCutIsAnsweredAndAllElseFails) {
  Decode("runs", v1::DEADLINE_RESULT_ERROR);
  Decode("runs, best so far", v1::DEADLINE_RESULT_BEST_SO_FAR);
  Decode("waits", v1::DEADLINE_RESULT_BEST_SO_FAR);
  holder_.asked.Notify();
  holder_.held.WaitForNotification();
  engine_->End(absl::UnavailableError("that is all"));
  Decode("late", v1::DEADLINE_RESULT_BEST_SO_FAR);
  holder_.go_on.Notify();
  engine_->Drain();
  absl::MutexLock lock(&mutex_);
  ASSERT_EQ(answers_.size(), 4u);
  const absl::StatusOr<v1::Decoded>& cut = answers_.at("runs, best so far");
  ASSERT_TRUE(cut.ok()) << cut.status();
  ASSERT_GT(cut->hypotheses_size(), 0);
  for (const v1::Hypothesis& hypothesis : cut->hypotheses()) {
    EXPECT_LE(hypothesis.tokens_size(), kHeldAfter);
    EXPECT_EQ(hypothesis.finish_reason(), v1::FINISH_REASON_SHUTDOWN);
  }
  EXPECT_EQ(answers_.at("runs").status(), absl::UnavailableError("that is all"));
  EXPECT_EQ(answers_.at("waits").status(), absl::UnavailableError("that is all"));
  EXPECT_EQ(answers_.at("late").status().code(), absl::StatusCode::kUnavailable);
}

// The answer that finds no memory is lost; no caller is left without one.
TEST_F(EndTest, MemoryMayRunOutMeanwhile) {
  Decode("runs", v1::DEADLINE_RESULT_ERROR);
  Decode("runs, best so far", v1::DEADLINE_RESULT_BEST_SO_FAR);
  holder_.asked.Notify();
  holder_.held.WaitForNotification();
  fault_hook = [](const char* point) {
    return absl::string_view(point) == "engine.reply" ? throw std::bad_alloc() : absl::OkStatus();
  };
  engine_->End(absl::UnavailableError("that is all"));
  holder_.go_on.Notify();
  engine_->Drain();
  fault_hook = nullptr;
  absl::MutexLock lock(&mutex_);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_.at("runs, best so far").status(), status::OutOfMemory());
  EXPECT_EQ(answers_.at("runs").status(), absl::UnavailableError("that is all"));
}

}  // namespace
}  // namespace beamwright::engine
