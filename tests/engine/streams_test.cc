// Streams: engine threads that step requests side by side. Answers do not depend on their number,
// threads are as many as were asked for, and what all of them may run together is one budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "include/beamwright/engine.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::TableBundle;

v1::Source Ids(int number) {
  v1::Source source;
  for (int i = 0; i <= number % 7; ++i) {
    source.mutable_ids()->add_ids(3 + (number + i) % 4);
  }
  return source;
}

v1::DecodeOptions Beam(int size) {
  v1::DecodeOptions options;
  options.set_beam_size(size);
  options.set_n_best(size);
  options.set_max_length(6);
  return options;
}

// Ids of this process's threads.
std::set<std::string> Threads() {
  std::set<std::string> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(task.path().filename());
  }
  return threads;
}

class Watcher : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override { Look(); }
  void OnStep(const DecodeModel&, const StepFacts&) override {
    Look();
    if (hold.exchange(false)) {
      held.Notify();
      go_on.WaitForNotification();
    }
  }

  std::atomic<bool> hold{false};
  absl::Notification held;
  absl::Notification go_on;

  // The threads of now are not counted from here on: a sanitizer's, and those of an engine before,
  // which the kernel lists for a moment after they were joined.
  void CountNewThreads() {
    absl::MutexLock lock(&mutex_);
    before_ = Threads();
    most_threads_ = 0;
  }
  // The most new threads that a step or an encoder's run saw.
  int most_threads() {
    absl::MutexLock lock(&mutex_);
    return most_threads_;
  }

 private:
  void Look() {
    absl::MutexLock lock(&mutex_);
    int count = 0;
    for (const std::string& thread : Threads()) {
      count += before_.contains(thread) ? 0 : 1;
    }
    most_threads_ = std::max(most_threads_, count);
  }

  absl::Mutex mutex_;
  std::set<std::string> before_;
  int most_threads_ = 0;
};

struct Team {
  int threads;
  int streams;
};

class StreamsTest : public ::testing::Test {
 protected:
  StreamsTest() { model_ = *DecodeModel::Compile(TableBundle(RandomTable(22), {})); }

  std::unique_ptr<Engine> Start(const Team& team, int max_rows = 64) {
    EngineOptions options;
    options.num_threads = team.threads;
    options.num_streams = team.streams;
    options.max_rows = max_rows;
    options.observer = &watcher_;
    return *Engine::Start(options);
  }

  // What 100 requests at once are answered, without the times.
  std::vector<std::string> DecodeAll(Engine& engine) {
    constexpr int kNumRequests = 100;
    std::vector<std::string> answers(kNumRequests);
    // Streams answer from several threads; of a BlockingCounter ThreadSanitizer sees the last count
    // alone.
    absl::Mutex mutex;
    int left = kNumRequests;
    for (int i = 0; i < kNumRequests; ++i) {
      std::string& answer = answers[static_cast<size_t>(i)];
      engine.Decode(model_, Ids(i), Beam(1 + i % 5), {},
                    [&answer, &mutex, &left](absl::StatusOr<v1::Decoded> decoded) {
                      if (decoded.ok()) {
                        decoded->clear_queue_ms();
                        decoded->clear_compute_ms();
                        answer = decoded->SerializeAsString();
                      } else {
                        answer = decoded.status().ToString();
                      }
                      const absl::MutexLock lock(&mutex);
                      --left;
                    });
    }
    const absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(
        +[](int* count) { return *count == 0; }, &left));
    return answers;
  }

  std::shared_ptr<const DecodeModel> model_;
  Watcher watcher_;
};

TEST_F(StreamsTest, AnswersDoNotTellHowManyThereAre) {
  const std::vector<std::string> expected = DecodeAll(*Start({1, 1}));
  constexpr int kAsWorkIs = EngineOptions::kStreamsAsWorkIs;
  for (const Team& team :
       {Team{2, 1}, Team{2, 2}, Team{5, 3}, Team{2, kAsWorkIs}, Team{5, kAsWorkIs}}) {
    for (const int max_rows : {5, 64}) {
      EXPECT_EQ(DecodeAll(*Start(team, max_rows)), expected)
          << team.threads << " threads, " << team.streams << " streams, " << max_rows << " rows";
    }
  }
}

// Threads of the runtime below are there after the first engine. A stream tries out whether there
// are threads for its region before it opens it (ops/kernels/team.cc), while others run.
TEST_F(StreamsTest, ThreadsAreNoMoreThanWereAskedFor) {
  DecodeAll(*Start({1, 1}));
  for (const Team& team : {Team{1, 1}, Team{2, 1}, Team{2, 2}, Team{4, 2}}) {
    watcher_.CountNewThreads();
    DecodeAll(*Start(team));
    const int tried = team.streams > 1 ? team.threads - team.streams : 0;
    EXPECT_LE(watcher_.most_threads(), team.threads + tried + 1)  // the supervisor
        << team.threads << " threads, " << team.streams << " streams";
  }
}

// Any stream has all threads while it works alone, so each may start a team of that size. The
// threads of a team wait while another stream has the cores.
TEST_F(StreamsTest, EachStreamHasATeamOfAllThreadsAtMost) {
  DecodeAll(*Start({1, 1}));
  for (const int threads : {1, 2, 4}) {
    watcher_.CountNewThreads();
    DecodeAll(*Start({threads, EngineOptions::kStreamsAsWorkIs}));
    const int streams = threads;
    EXPECT_LE(watcher_.most_threads(), streams * threads + 1) << threads << " threads";
  }
}

// One stream is stuck in a step: a new request is served by the other.
TEST_F(StreamsTest, NobodyWaitsForABusyStreamWhileAnotherIdles) {
  watcher_.hold = true;
  const auto engine = Start({2, 2});
  absl::Notification first_done;
  engine->Decode(model_, Ids(6), Beam(5), {}, [&](const auto&) { first_done.Notify(); });
  watcher_.held.WaitForNotification();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(engine->DecodeAndWait(model_, Ids(i), Beam(1)).ok());
  }
  EXPECT_FALSE(first_done.HasBeenNotified());
  EXPECT_GE(engine->load().rows, 5);
  watcher_.go_on.Notify();
  first_done.WaitForNotification();
}

// All rows are one stream's; the other must neither take more nor sleep through their end.
TEST_F(StreamsTest, RowsAreOneBudget) {
  watcher_.hold = true;
  const auto engine = Start({2, 2}, 5);
  absl::Notification first_done;
  engine->Decode(model_, Ids(6), Beam(5), {}, [&](const auto&) { first_done.Notify(); });
  watcher_.held.WaitForNotification();
  absl::BlockingCounter left(2);
  for (int i = 0; i < 2; ++i) {
    engine->Decode(model_, Ids(i), Beam(3), {}, [&](const auto&) { left.DecrementCount(); });
  }
  EXPECT_EQ(engine->load().rows, 5);
  EXPECT_EQ(engine->load().waiting, 2);
  watcher_.go_on.Notify();
  first_done.WaitForNotification();
  left.Wait();
}

TEST_F(StreamsTest, EachHasAThread) {
  EngineOptions options;
  options.num_threads = 2;
  for (const int wrong : {-1, 3}) {
    options.num_streams = wrong;
    EXPECT_EQ(Engine::Start(options).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace beamwright::engine
