// How the engine takes what waits: tenants, deadlines and cancels in the queue. An observer holds
// the engine's thread, so that a test decides what waits before anything goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/options/decode_options.h"
#include "engine/schedule/worker.h"
#include "engine/status/fault.h"
#include "include/beamwright/engine.h"
#include "ops/base/steady_time.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::TableBundle;

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

class Holder : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {
    if (hold_.exchange(false)) {
      held.Notify();
      go_on.WaitForNotification();
    }
  }
  void OnStep(const DecodeModel&, const StepFacts& step) override {
    rows_of_steps.insert(step.num_rows);
  }
  void Hold() { hold_ = true; }

  std::set<int> rows_of_steps;  // on the engine's thread
  absl::Notification held;
  absl::Notification go_on;

 private:
  std::atomic<bool> hold_{false};
};

class SchedulingTest : public ::testing::Test {
 protected:
  SchedulingTest() { model_ = *DecodeModel::Compile(TableBundle(RandomTable(21), {})); }

  void Start(EngineOptions options) {
    options.num_threads = 1;
    options.observer = &holder_;
    engine_ = *Engine::Start(options);
  }

  // Its status and its number go into the records when it is answered.
  void Decode(int number, const CallOptions& call = {}, int beam_size = 1) {
    v1::DecodeOptions options;
    options.set_beam_size(beam_size);
    options.set_n_best(1);
    engine_->Decode(model_, Ids({3, 4, 5}), options, call,
                    [this, number](const absl::StatusOr<v1::Decoded>& decoded) {
                      absl::MutexLock lock(&mutex_);
                      answers_[number] = decoded.status();
                      order_.push_back(number);
                    });
  }

  // The engine runs this request and goes no further.
  void DecodeAndHold(int number) {
    holder_.Hold();
    Decode(number);
    holder_.held.WaitForNotification();
  }

  // Rows of the steps that two requests of 20 rows and two of 1 take. -1: no model fits in the
  // cache.
  std::set<int> RowsOfWideAndNarrow(int64_t cached_bytes) {
    EngineOptions options;
    options.cached_bytes = cached_bytes;
    Start(options);
    DecodeAndHold(0);
    Decode(1, {}, 20);
    Decode(2, {}, 20);
    Decode(3);
    holder_.go_on.Notify();
    engine_->Drain();
    for (const auto& [number, status] : answers_) {
      EXPECT_TRUE(status.ok()) << number << ": " << status;
    }
    engine_ = nullptr;  // its thread reports the last step after the last answer
    return holder_.rows_of_steps;
  }

  bool Answered(int number) {
    absl::MutexLock lock(&mutex_);
    return answers_.count(number) > 0;
  }

  std::shared_ptr<const DecodeModel> model_;
  Holder holder_;
  absl::Mutex mutex_;
  std::map<int, absl::Status> answers_;
  std::vector<int> order_;
  std::unique_ptr<Engine> engine_;  // its callbacks use the others
};

// While it is known that there is no room, a source is not even looked at: this one has no such
// tokens. What is known grows old, so it may take more than one try.
TEST_F(SchedulingTest, AFullQueueRefusesBeforeAnythingIsPrepared) {
  EngineOptions options;
  options.max_rows = 1;
  options.max_queue = 1;
  Start(options);
  absl::Status refusal;
  const auto decode_wrong = [&] {
    engine_->Decode(model_, Ids({-7}), {}, {}, [&](const absl::StatusOr<v1::Decoded>& decoded) {
      refusal = decoded.status();
    });
  };
  decode_wrong();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument);
  DecodeAndHold(0);
  Decode(1);
  for (int i = 0; i < 1000 && !absl::IsResourceExhausted(refusal); ++i) {
    Decode(2);
    EXPECT_EQ(status::ReasonOf(answers_[2]), status::reason::kQueueFull);
    decode_wrong();
  }
  EXPECT_EQ(status::ReasonOf(refusal), status::reason::kQueueFull);
  EXPECT_TRUE(status::RetryAfterOf(refusal).has_value());
  EXPECT_FALSE(engine_->idle());
  holder_.go_on.Notify();
  engine_->Drain();
  EXPECT_TRUE(engine_->idle());
  decode_wrong();
  EXPECT_NE(status::ReasonOf(refusal), status::reason::kQueueFull);
  EXPECT_TRUE(answers_[0].ok() && answers_[1].ok());
}

// All of a step wait for its end: a narrow request does not share the steps of wide ones.
TEST_F(SchedulingTest, WideRequestsAreSteppedApart) {
  const std::set<int> rows = RowsOfWideAndNarrow(int64_t{1} << 40);
  EXPECT_EQ(rows.count(40), 1u);
  EXPECT_EQ(rows.count(41) + rows.count(42) + rows.count(21) + rows.count(22), 0u);
}

// But where weights come from memory, more rows are hardly more work.
TEST_F(SchedulingTest, OfALargeModelAllAreSteppedTogether) {
  const std::set<int> rows = RowsOfWideAndNarrow(-1);
  EXPECT_EQ(rows.count(42), 1u);
  EXPECT_EQ(rows.count(40), 0u);
}

// What a worker does in its turns.
class Turns : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int num_sources, int64_t, absl::Duration) override {
    encoded.push_back(num_sources);
  }
  void OnStep(const DecodeModel&, const StepFacts& step) override {
    rows_of_steps.insert(step.num_rows);
  }

  std::vector<int> encoded;
  std::set<int> rows_of_steps;
};

// Sources of a crowd are neither encoded nor stepped together with others, which come first; and
// few of them are encoded between two steps.
TEST(WorkerTest, ACrowdIsServedApart) {
  const auto model = *DecodeModel::Compile(TableBundle(RandomTable(21), {}));
  Turns turns;
  EngineOptions options;
  options.num_threads = 1;
  options.cached_bytes = int64_t{1} << 40;
  options.max_encode_positions = 8 * 12;
  options.observer = &turns;
  Admission admission(options);
  Quarantine quarantine(options.quarantine);
  Worker worker(options, admission, quarantine);
  const auto resolved = *ResolveOptions(*model, [] {
    v1::DecodeOptions narrow;
    narrow.set_beam_size(1);
    return narrow;
  }());
  int num_answered = 0;
  Worker::Requests requests;
  for (int i = 0; i < 13; ++i) {
    auto request = *model->search().MakeRequest(
        options, model, *PrepareSource(*model, Ids({3, 4, 5})), *resolved, {});
    request->done = DecodeCallback([&](const absl::StatusOr<v1::Decoded>& decoded) {
      EXPECT_TRUE(decoded.ok()) << decoded.status();
      ++num_answered;
    });
    request->is_of_crowd = i < 10;
    requests.push_back(std::move(request));
  }
  worker.Turn(std::move(requests), absl::OkStatus());
  EXPECT_EQ(turns.encoded, std::vector<int>({3, 4})) << "of four positions each with the end";
  while (num_answered < 13) {
    worker.Turn({}, absl::OkStatus());
  }
  EXPECT_EQ(std::accumulate(turns.encoded.begin(), turns.encoded.end(), 0), 13);
  EXPECT_LE(*std::max_element(turns.encoded.begin(), turns.encoded.end()), 4);
  EXPECT_LE(*turns.rows_of_steps.rbegin(), 10);
}

TEST_F(SchedulingTest, TenantsAndCallsTakeTurns) {
  EngineOptions options;
  options.max_rows = 1;
  Start(options);
  Tenant a;
  a.name = "a";
  Tenant b;
  b.name = "b";
  b.weight = 3;
  CallOptions of_a;
  of_a.tenant = std::make_shared<const Tenant>(a);
  of_a.call = 1;
  CallOptions other_of_a = of_a;
  other_of_a.call = 2;
  CallOptions of_b;
  of_b.tenant = std::make_shared<const Tenant>(b);
  DecodeAndHold(-1);
  for (int i = 0; i < 300; ++i) {
    Decode(1000 + i, of_a);
  }
  Decode(2000, other_of_a);
  for (int i = 0; i < 300; ++i) {
    Decode(3000 + i, of_b);
  }
  const std::vector<TenantLoad> loads = engine_->Tenants();
  EXPECT_EQ(loads.size(), 3u);
  holder_.go_on.Notify();
  engine_->Drain();
  int of_b_early = 0;
  size_t other_at = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    of_b_early += i < 200 && order_[i] >= 3000 ? 1 : 0;
    other_at = order_[i] == 2000 ? i : other_at;
  }
  EXPECT_NEAR(of_b_early, 150, 5);
  EXPECT_LT(other_at, 12u);  // the second of a's, though 300 came before it
  EXPECT_TRUE(engine_->Tenants().empty()) << "all is given back";
}

TEST_F(SchedulingTest, ATenantsLimitsHoldWhileItRuns) {
  EngineOptions options;
  options.max_rows = 64;
  Start(options);
  Tenant few;
  few.name = "few";
  few.max_running = 2;
  few.max_waiting = 3;
  CallOptions call;
  call.tenant = std::make_shared<const Tenant>(few);
  DecodeAndHold(0);
  for (int i = 1; i <= 4; ++i) {
    Decode(i, call);
  }
  EXPECT_EQ(status::ReasonOf(answers_[4]), status::reason::kTenantQuota);
  holder_.go_on.Notify();
  engine_->Drain();
  for (int i = 0; i <= 3; ++i) {
    EXPECT_TRUE(answers_[i].ok()) << answers_[i];
  }
}

TEST_F(SchedulingTest, WhatWouldMissItsDeadlineIsRefusedAtOnce) {
  EngineOptions options;
  options.max_rows = 1;
  Start(options);
  v1::DecodeOptions narrow;
  narrow.set_beam_size(1);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(engine_->DecodeAndWait(model_, Ids({3, 4, 5}), narrow).status().ok());
  }
  CallOptions hopeless;
  hopeless.deadline = SteadyNow() - absl::Seconds(1);
  // Alone it is taken, for only what runs shows whether the estimate still holds.
  Decode(1, hopeless);
  ASSERT_TRUE(engine_->DecodeAndWait(model_, Ids({3}), narrow).ok());
  while (!Answered(1)) {  // the other one has a shorter source, and may go first
    std::this_thread::yield();
  }
  EXPECT_EQ(answers_[1].code(), absl::StatusCode::kDeadlineExceeded);
  DecodeAndHold(2);
  Decode(3);
  Decode(4, hopeless);
  ASSERT_TRUE(Answered(4)) << "not at once";
  EXPECT_EQ(status::ReasonOf(answers_[4]), status::reason::kWouldMissDeadline);
  CallOptions patient;
  patient.deadline = SteadyNow() + absl::Hours(1);
  Decode(5, patient);
  holder_.go_on.Notify();
  engine_->Drain();
  EXPECT_TRUE(answers_[5].ok()) << answers_[5];
}

}  // namespace
}  // namespace beamwright::engine
