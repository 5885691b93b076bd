// Models whose graphs do not come to an end: who is in such a run gets an answer when it is due,
// everybody else, of the model too, gets the one that they always get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/load_model.h"
#include "engine/status/fault.h"
#include "include/beamwright/engine.h"
#include "ops/base/fault_point.h"
#include "ops/base/interruption.h"
#include "ops/base/steady_time.h"
#include "tests/engine/hanging_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::HangingBundle;
using engine_testing::kHangsInEncoder;
using engine_testing::kHangsInPrologue;
using engine_testing::kHangsInStep;
using engine_testing::RandomTable;
using engine_testing::SourceOfSum;
using engine_testing::TableBundle;
using ModelPtr = std::shared_ptr<const DecodeModel>;

ModelPtr Compiled(bundle::Bundle bundle) {
  auto model = DecodeModel::Compile(std::move(bundle));
  BW_CHECK(model.ok());
  return *std::move(model);
}

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

std::string Bytes(const absl::StatusOr<v1::Decoded>& decoded) {
  if (!decoded.ok()) {
    return decoded.status().ToString();
  }
  v1::Decoded bytes = *decoded;
  bytes.clear_queue_ms();
  bytes.clear_compute_ms();
  return bytes.SerializeAsString();
}

// What becomes of one request.
struct Outcome {
  absl::Notification done;
  absl::StatusOr<v1::Decoded> answer;

  absl::StatusOr<v1::Decoded> Wait() {
    done.WaitForNotification();
    return answer;
  }
};

// Holds the engine behind an encoder run until the test has asked all that it wants to.
class AskedAtOnce : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {
    const auto go_on = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !holds_; };
    absl::MutexLock lock(&mutex_);
    is_held_ = holds_;
    mutex_.Await(absl::Condition(&go_on));
  }
  // Behind the first encoder run since Hold(true).
  void WaitUntilHeld() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_held_));
  }
  void OnStep(const DecodeModel&, const StepFacts& facts) override {
    absl::MutexLock lock(&mutex_);
    most_rows_ = std::max(most_rows_, facts.num_rows);
  }
  void Hold(bool holds) {
    absl::MutexLock lock(&mutex_);
    holds_ = holds;
  }
  int most_rows() {
    absl::MutexLock lock(&mutex_);
    return most_rows_;
  }

 private:
  absl::Mutex mutex_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;
  int most_rows_ ABSL_GUARDED_BY(mutex_) = 0;
};

class HangTest : public ::testing::Test {
 protected:
  HangTest()
      : hanging_(Compiled(HangingBundle(RandomTable(31)))),
        other_(Compiled(TableBundle(RandomTable(21), {}))) {}
  ~HangTest() override { fault_hook = nullptr; }

  void Start(EngineOptions options) {
    options.num_threads = num_threads_;
    options.forecast_deadlines = false;
    options.observer = &asked_at_once_;
    engine_ = *Engine::Start(options);
  }
  // A slow model differs from one that is not within the time of a test.
  static EngineOptions Options() {
    EngineOptions options;
    options.slow_step = absl::Milliseconds(50);
    options.quarantine.failures = 0;
    return options;
  }

  static v1::DecodeOptions Search() {
    v1::DecodeOptions options;
    options.set_beam_size(3);
    options.set_n_best(3);
    options.set_max_length(8);
    options.set_stop(v1::STOP_MODE_NEVER);
    return options;
  }
  std::shared_ptr<Outcome> Decode(const ModelPtr& model, const std::vector<int32_t>& ids,
                                  const CallOptions& call = {},
                                  const v1::DecodeOptions& options = Search()) {
    auto outcome = std::make_shared<Outcome>();
    engine_->Decode(model, Ids(ids), options, call, [outcome](absl::StatusOr<v1::Decoded> decoded) {
      outcome->answer = std::move(decoded);
      outcome->done.Notify();
    });
    return outcome;
  }
  static CallOptions Until(absl::Duration time) {
    CallOptions call;
    call.deadline = SteadyNow() + time;
    return call;
  }

  int num_threads_ = 1;
  const ModelPtr hanging_;
  const ModelPtr other_;
  AskedAtOnce asked_at_once_;
  std::unique_ptr<Engine> engine_;
};

// For a fault hook, which is a plain function.
std::atomic<int> encoder_runs_left = 0;
std::atomic<absl::Notification*> encoders_run = nullptr;

// Where it hangs, and with how many threads: with two, sources of different lengths are encoded
// side by side.
class HangSomewhereTest : public HangTest,
                          public ::testing::WithParamInterface<std::tuple<int64_t, int>> {
 protected:
  HangSomewhereTest() { num_threads_ = std::get<1>(GetParam()); }
  static int64_t Place() { return std::get<0>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Everywhere, HangSomewhereTest,
                         ::testing::Combine(::testing::Values(kHangsInEncoder, kHangsInStep,
                                                              kHangsInPrologue),
                                            ::testing::Values(1, 2)));

TEST_P(HangSomewhereTest, OtherModelsAreAnsweredAndACancelEndsIt) {
  Start(Options());
  const std::string alone = Bytes(engine_->DecodeAndWait(other_, Ids({4, 9}), Search()));
  const auto flag = std::make_shared<CancelFlag>();
  CallOptions call;
  call.cancelled = flag;
  const auto hangs = Decode(hanging_, SourceOfSum(Place()), call);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Bytes(Decode(other_, {4, 9})->Wait()), alone);
  }
  EXPECT_FALSE(hangs->done.HasBeenNotified());
  EXPECT_LT(engine_->load().turn, absl::Seconds(30));
  flag->Cancel();
  EXPECT_EQ(hangs->Wait().status().code(), absl::StatusCode::kCancelled);
  engine_->Drain();
  EXPECT_EQ(engine_->load().running, 0);
  EXPECT_EQ(engine_->load().rows, 0);
  EXPECT_EQ(engine_->load().bytes, 0);
}

TEST_P(HangSomewhereTest, ADeadlineEndsIt) {
  Start(Options());
  const auto hangs = Decode(hanging_, SourceOfSum(Place()), Until(absl::Milliseconds(200)))->Wait();
  EXPECT_EQ(hangs.status().code(), absl::StatusCode::kDeadlineExceeded);
  // The thread is free again.
  EXPECT_TRUE(Decode(hanging_, {1, 2})->Wait().ok());
}

// Sources in the run with the one that hangs, of which one has no deadline: it gets the answer that
// it gets alone, to the bit, from the step on that had to be made again.
TEST_P(HangSomewhereTest, ANeighbourOutlivesTheDeadlineOfAnother) {
  Start(Options());
  const std::vector<int32_t> ids = SourceOfSum(400);  // as long as the others
  const std::string alone = Bytes(Decode(hanging_, ids)->Wait());
  asked_at_once_.Hold(true);
  const auto hangs = Decode(hanging_, SourceOfSum(Place()), Until(absl::Milliseconds(300)));
  const auto neighbour = Decode(hanging_, ids);
  const auto other_hangs = Decode(hanging_, SourceOfSum(Place()), Until(absl::Milliseconds(400)));
  asked_at_once_.Hold(false);
  EXPECT_EQ(Bytes(neighbour->Wait()), alone);
  EXPECT_EQ(hangs->Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(other_hangs->Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  if (Place() == kHangsInStep) {
    EXPECT_EQ(asked_at_once_.most_rows(), 3 * Search().beam_size());  // they were together
  }
}

// The same where the neighbours are of other lengths, and one is given up by its caller: what is
// left is encoded again, and by itself.
TEST_P(HangSomewhereTest, NeighboursOfOtherLengthsAreAnswered) {
  const auto notification = std::make_unique<absl::Notification>();
  encoders_run = notification.get();
  Start(Options());
  const std::vector<std::vector<int32_t>> sources = {{4}, {4, 9}, {4, 9, 9, 5}, {3, 3, 3, 3, 3}};
  std::vector<std::string> alone;
  for (const auto& ids : sources) {
    alone.push_back(Bytes(Decode(hanging_, ids)->Wait()));
  }
  const auto flag = std::make_shared<CancelFlag>();
  CallOptions call;
  call.cancelled = flag;
  asked_at_once_.Hold(true);
  const auto first = Decode(hanging_, sources[0]);
  asked_at_once_.WaitUntilHeld();
  const auto hangs = Decode(hanging_, SourceOfSum(Place()), call);
  std::vector<std::shared_ptr<Outcome>> neighbours;
  for (const auto& ids : sources) {
    neighbours.push_back(Decode(hanging_, ids));
  }
  // Not before they are being encoded: two at least, where that is side by side.
  encoder_runs_left = num_threads_;
  fault_hook = [](const char* point) {
    if (point == absl::string_view("engine.encode") && --encoder_runs_left == 0) {
      encoders_run.load()->Notify();
    }
    return absl::OkStatus();
  };
  asked_at_once_.Hold(false);
  notification->WaitForNotification();
  flag->Cancel();
  EXPECT_EQ(Bytes(first->Wait()), alone[0]);
  EXPECT_EQ(hangs->Wait().status().code(), absl::StatusCode::kCancelled);
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(Bytes(neighbours[i]->Wait()), alone[i]) << i;
  }
  engine_->Drain();
  EXPECT_EQ(engine_->load().bytes, 0);
}

TEST_P(HangSomewhereTest, TheEndOfTheEngineEndsIt) {
  Start(Options());
  const auto hangs = Decode(hanging_, SourceOfSum(Place()));
  EXPECT_TRUE(Decode(other_, {4, 9})->Wait().ok());
  engine_->End(absl::UnavailableError("that is all"));
  engine_->Drain();
  EXPECT_EQ(hangs->Wait().status(), absl::UnavailableError("that is all"));
}

TEST_P(HangSomewhereTest, AStepHasItsTimeAndThenTheModelIsOut) {
  EngineOptions options = Options();
  options.step_timeout = absl::Milliseconds(300);
  options.quarantine = {1, absl::Hours(1)};
  Start(options);
  absl::Notification out;
  engine_->quarantine().Observe([&](const DecodeModel& model, const std::string& why) {
    EXPECT_EQ(&model, hanging_.get());
    EXPECT_EQ(why, "does not come to an end");
    out.Notify();
  });
  const auto hangs = Decode(hanging_, SourceOfSum(Place()));
  EXPECT_EQ(hangs->Wait().status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(hangs->answer.status().message()), testing::HasSubstr("step-timeout"));
  out.WaitForNotification();
  const auto next = Decode(hanging_, {1, 2})->Wait();
  EXPECT_EQ(next.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::ReasonOf(next.status()), status::reason::kQuarantined);
  EXPECT_TRUE(Decode(other_, {4, 9})->Wait().ok());
}

// What it has is what it had before the step.
TEST_F(HangTest, BestSoFarIsAnsweredInTime) {
  Start(Options());
  v1::DecodeOptions options = Search();
  options.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  const auto answer =
      Decode(hanging_, SourceOfSum(kHangsInStep), Until(absl::Milliseconds(300)), options)->Wait();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GT(answer->hypotheses_size(), 0);
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) {
    EXPECT_LE(hypothesis.tokens_size(), engine_testing::kHangingStep);
  }
}

// A model that hangs for more requests than there is room leaves room for others.
TEST_F(HangTest, ACrowdThatHangsLeavesRoomForOthers) {
  EngineOptions options = Options();
  options.max_rows = 12;
  Start(options);
  const auto flag = std::make_shared<CancelFlag>();
  CallOptions call;
  call.cancelled = flag;
  std::vector<std::shared_ptr<Outcome>> crowd;
  crowd.push_back(Decode(hanging_, SourceOfSum(kHangsInStep), call));
  EXPECT_TRUE(Decode(other_, {4, 9})->Wait().ok());  // the model has been set apart, or will be
  for (int i = 0; i < 20; ++i) {
    crowd.push_back(Decode(hanging_, SourceOfSum(kHangsInStep), call));
  }
  EXPECT_TRUE(Decode(other_, {4, 9})->Wait().ok());
  flag->Cancel();
  for (const auto& one : crowd) {
    EXPECT_EQ(one->Wait().status().code(), absl::StatusCode::kCancelled);
  }
}

// One instruction can't be interrupted; others need not wait for it either.
TEST_F(HangTest, WhatCannotBeInterruptedHoldsUpNobodyElse) {
  static absl::Notification* go_on;
  static std::atomic<bool> hold;
  absl::Notification notification;
  go_on = &notification;
  hold = true;
  fault_hook = [](const char* point) {
    if (absl::string_view(point) == "engine.step" && hold.exchange(false)) {
      go_on->WaitForNotification();
    }
    return absl::OkStatus();
  };
  Start(Options());
  const auto held = Decode(hanging_, {1, 2}, Until(absl::Milliseconds(200)));
  EXPECT_EQ(held->Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Decode(other_, {4, 9})->Wait().ok());
  const auto waits = Decode(hanging_, {1, 2}, Until(absl::Milliseconds(100)));
  EXPECT_EQ(waits->Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  notification.Notify();
  EXPECT_TRUE(Decode(hanging_, {1, 2})->Wait().ok());
}

// At load an interruption ends what the model is tried with.
TEST(LoadInterruptionTest, EndsWarmUp) {
  const ModelPtr model = Compiled(HangingBundle(RandomTable(31)));
  std::string ids;
  for (const int32_t id : SourceOfSum(kHangsInStep)) {
    absl::StrAppend(&ids, ids.empty() ? "" : ",", id);
  }
  const std::string line =
      absl::StrCat("{\"source\":{\"ids\":{\"ids\":[", ids, "]}},\"options\":{}}\n");
  Interruption interruption;
  absl::Status status;
  WarmUpOptions options;
  options.interruption = &interruption;
  std::thread loads([&] { status = WarmUp(model, line, options); });
  interruption.Raise();
  loads.join();
  EXPECT_THAT(status.message(), testing::HasSubstr("interrupted"));
}

// Precision `auto` compiles on two threads.
TEST(LoadInterruptionTest, EndsEveryCompilation) {
  bundle::Bundle bundle = HangingBundle(RandomTable(31));
  bundle.encoder = engine_testing::HangingEncoder(/*always=*/true);
  Interruption interruption;
  interruption.Raise();
  CompileOptions options;
  options.context.interruption = &interruption;
  for (const v1::Precision precision : {v1::PRECISION_F32, v1::PRECISION_AUTO}) {
    options.precision = precision;
    EXPECT_THAT(DecodeModel::Compile(bundle, options).status().message(),
                testing::HasSubstr("interrupted"));
  }
}

}  // namespace
}  // namespace beamwright::engine
