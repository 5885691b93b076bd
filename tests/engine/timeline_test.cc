// What the engine notes of a source for those who trace it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/request/tenant.h"
#include "include/beamwright/engine.h"
#include "ops/base/fault_point.h"
#include "tests/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() {
    model_ = *DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
    EngineOptions options;
    options.num_threads = 1;
    engine_ = *Engine::Start(options);
    source_.mutable_ids()->add_ids(4);
  }

  std::shared_ptr<const DecodeModel> model_;
  std::unique_ptr<Engine> engine_;
  v1::Source source_;
};

TEST_F(TimelineTest, HasEveryPartInItsOrder) {
  Timeline line;
  CallOptions call;
  call.timeline = &line;
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_max_length(20);
  options.set_stop(v1::STOP_MODE_NEVER);
  ASSERT_TRUE(engine_->DecodeAndWait(model_, source_, options, call).ok());
  EXPECT_GT(line.accepted, absl::InfinitePast());
  EXPECT_LE(line.accepted, line.started);
  EXPECT_LE(line.started, line.encoded);
  EXPECT_LE(line.encoded, line.marks.at(0).at);
  EXPECT_LE(line.marks.at(0).at, line.marks.at(1).at);
  EXPECT_LE(line.marks.at(1).at, line.searched);
  EXPECT_LE(line.searched, line.written);
  EXPECT_EQ(line.beam_size, 3);
  EXPECT_EQ(line.num_steps, 20);
  ASSERT_EQ(line.marks.size(), 2u);
  EXPECT_EQ(line.marks[0].steps, 8);
  EXPECT_EQ(line.marks[1].steps, 16);
}

TEST_F(TimelineTest, ScoringHasTheSameParts) {
  Timeline line;
  CallOptions call;
  call.timeline = &line;
  v1::ScoreSource source;
  *source.mutable_source() = source_;
  for (int target = 0; target < 2; ++target) {
    source.add_targets()->mutable_ids()->add_ids(5);
  }
  absl::Notification done;
  engine_->Score(model_, source, {}, call, [&](const absl::StatusOr<v1::Scored>& scored) {
    EXPECT_TRUE(scored.ok()) << scored.status();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_GT(line.accepted, absl::InfinitePast());
  EXPECT_LE(line.accepted, line.started);
  EXPECT_LE(line.started, line.encoded);
  EXPECT_LE(line.encoded, line.searched);
  EXPECT_LE(line.searched, line.written);
  EXPECT_EQ(line.beam_size, 2);
  EXPECT_EQ(line.num_steps, 2);
}

TEST_F(TimelineTest, OfWhatFailsEndsWhereItFailed) {
  Timeline line;
  CallOptions call;
  call.timeline = &line;
  const auto given_up = std::make_shared<CancelFlag>();
  given_up->Cancel();
  call.cancelled = given_up;
  EXPECT_FALSE(engine_->DecodeAndWait(model_, source_, {}, call).ok());
  EXPECT_GT(line.accepted, absl::InfinitePast());
  EXPECT_EQ(line.searched, absl::InfinitePast());
  EXPECT_EQ(line.written, absl::InfinitePast());
}

TEST(TimelineMarksTest, AreBounded) {
  Timeline line;
  for (int i = 0; i < 10'000; ++i) {
    line.Step();
  }
  EXPECT_EQ(line.num_steps, 10'000);
  EXPECT_EQ(line.marks.size(), Timeline::kMostMarks);
}

}  // namespace

// What the observer gets of a source at its end: the work on it, whatever became of it.

namespace {

using absl::StatusCode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kSteps = 12;

// Cancels a flag behind a step, and keeps what it gets.
class Recorder : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    left_ = steps_;  // the step that ended the source before this one has been reported by now
  }
  void OnStep(const DecodeModel&, const StepFacts&) override {
    absl::MutexLock lock(&mutex_);
    if (--left_ == 0) {
      flag_->Cancel();
    }
  }
  void OnEnd(const DecodeModel&, const SourceFacts& facts) override {
    absl::MutexLock lock(&mutex_);
    told_.push_back(facts);
  }
  std::shared_ptr<const CancelFlag> CancelAfter(int steps) {
    absl::MutexLock lock(&mutex_);
    steps_ = steps;
    flag_ = std::make_shared<CancelFlag>();
    return flag_;
  }
  std::vector<SourceFacts> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(told_, {});
  }

 private:
  absl::Mutex mutex_;
  int steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int left_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<CancelFlag> flag_ ABSL_GUARDED_BY(mutex_);
  std::vector<SourceFacts> told_ ABSL_GUARDED_BY(mutex_);
};

class SourceFactsTest : public ::testing::Test {
 protected:
  SourceFactsTest() {
    model_ = *DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
    EngineOptions options;
    options.num_threads = 1;
    options.observer = &recorder_;
    engine_ = *Engine::Start(options);
    source_.mutable_ids()->add_ids(4);
    options_.set_min_length(kSteps);
    options_.set_max_length(kSteps);
    options_.set_stop(v1::STOP_MODE_NEVER);
    options_.set_beam_size(1);
  }

  // Reported before the answer is given.
  SourceFacts Decode(const CallOptions& call = {}) {
    engine_->DecodeAndWait(model_, source_, options_, call).IgnoreError();
    const std::vector<SourceFacts> told = recorder_.Take();
    EXPECT_THAT(told, SizeIs(1));
    return told.empty() ? SourceFacts() : told[0];
  }

  Recorder recorder_;
  std::shared_ptr<const DecodeModel> model_;
  v1::Source source_;
  v1::DecodeOptions options_;
  std::unique_ptr<Engine> engine_;  // it uses the others
};

TEST_F(SourceFactsTest, AnAnswerHasARowStepForEachHypothesisAndStep) {
  CallOptions call;
  call.priority = kLowestPriority;
  SourceFacts facts = Decode(call);
  EXPECT_EQ(facts.code, StatusCode::kOk);
  EXPECT_EQ(facts.row_steps, kSteps);
  EXPECT_EQ(facts.priority, kLowestPriority);
  EXPECT_GE(facts.waited, absl::ZeroDuration());
  EXPECT_LT(facts.waited, absl::Hours(1));
  options_.set_beam_size(3);
  facts = Decode();
  // All hypotheses are one at the first step.
  EXPECT_EQ(facts.row_steps, 1 + 3 * (kSteps - 1));
  EXPECT_EQ(facts.priority, kNormalPriority);
}

TEST_F(SourceFactsTest, OfACancelIsWhatWasDoneUntilThen) {
  for (const int steps : {1, 5, kSteps - 1}) {
    CallOptions call;
    call.cancelled = recorder_.CancelAfter(steps);
    const SourceFacts facts = Decode(call);
    EXPECT_EQ(facts.code, StatusCode::kCancelled);
    EXPECT_EQ(facts.row_steps, steps);
  }
}

TEST_F(SourceFactsTest, WhatNeverBeganHasNoWork) {
  CallOptions call;
  const auto given_up = std::make_shared<CancelFlag>();
  given_up->Cancel();
  call.cancelled = given_up;
  engine_->DecodeAndWait(model_, source_, options_, call).IgnoreError();
  for (const SourceFacts& facts : recorder_.Take()) {  // none if it died in the queue
    EXPECT_EQ(facts.code, StatusCode::kCancelled);
    EXPECT_EQ(facts.row_steps, 0);
    EXPECT_LT(facts.waited, absl::Hours(1));
  }
  options_.set_beam_size(-1);
  EXPECT_FALSE(engine_->DecodeAndWait(model_, source_, options_).ok());
  EXPECT_THAT(recorder_.Take(), IsEmpty()) << "a source that was refused";
}

TEST_F(SourceFactsTest, AStepThatFailsIsNone) {
  static std::atomic<int> steps = 0;
  steps = 0;
  fault_hook = [](const char* point) {
    return std::string(point) == "engine.step" && ++steps == 4 ? absl::InternalError("planted")
                                                               : absl::OkStatus();
  };
  const SourceFacts facts = Decode();
  engine_ = nullptr;
  fault_hook = nullptr;
  EXPECT_EQ(facts.code, StatusCode::kInternal);
  EXPECT_EQ(facts.row_steps, 3);
}

TEST_F(SourceFactsTest, TargetsThatAreScoredAreWorkToo) {
  v1::ScoreSource score;
  *score.mutable_source() = source_;
  v1::TokenIds& target = *score.add_targets()->mutable_ids();
  for (const int id : {4, 5, 6}) {
    target.add_ids(id);
  }
  v1::ScoreOptions options;
  options.set_end_token(false);
  ASSERT_TRUE(engine_->ScoreAndWait(model_, score, options).ok());
  const std::vector<SourceFacts> told = recorder_.Take();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].code, StatusCode::kOk);
  EXPECT_EQ(told[0].row_steps, 3);
}

}  // namespace

}  // namespace beamwright::engine
