// Which stream gets which rows and how many threads, for loads and machines of all sizes. What is
// tested is a plan: no thread computes, and no clock goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/queue/admission.h"
#include "engine/queue/stream_plan.h"
#include "tests/engine/table_bundle.h"
#include "tests/engine/waiting_request.h"

namespace beamwright::engine {
namespace {

absl::Time StandingClock() { return absl::UnixEpoch() + absl::Hours(1); }

struct Kind {
  const char* name;
  int rows;           // of a request
  int source_length;  // what its encoder reads
  bool is_large;      // no cache holds its weights
  int rows_of_a_stream;
  int threads_of_a_stream;  // that all but the last stream have at least
};
constexpr Kind kKinds[] = {{"small", 4, 10, false, 16, 1},
                           {"large", 4, 30, true, 64, 8},
                           {"encoder-heavy", 1, 2000, false, 16, 1}};

// Streams that take what the admission gives them, in turn. None is ever asked to wait.
class Plan {
 public:
  Plan(const Kind& kind, int threads, std::shared_ptr<const DecodeModel> model)
      : kind_(kind), num_threads_(threads), model_(std::move(model)) {
    EngineOptions options;
    options.num_threads = threads;
    options.max_rows = 1 << 20;
    options.num_streams = EngineOptions::kStreamsAsWorkIs;
    options.cached_bytes = kind.is_large ? -1 : int64_t{1} << 40;
    admission_ = std::make_unique<Admission>(options, StandingClock);
    running_.resize(static_cast<size_t>(options.MostStreams()));
    threads_.resize(running_.size());
  }

  void Enqueue(int requests) {
    for (int i = 0; i < requests; ++i) {
      std::unique_ptr<Request> request = std::make_unique<engine_testing::WaitingRequest>();
      request->model = model_;
      request->source.source_length = kind_.source_length;
      request->beam_size = kind_.rows;
      request->max_steps = 100;
      request->accepted = StandingClock();
      request->done = DecodeCallback([](const absl::StatusOr<v1::Decoded>&) {});
      ASSERT_TRUE(admission_->Enqueue(request).ok());
    }
    rows_ += requests * kind_.rows;
  }
  // How many streams there are rows enough for.
  int NumActive() const {
    return std::max(
        1, std::min({rows_ / kind_.rows_of_a_stream, num_threads_ / kind_.threads_of_a_stream,
                     static_cast<int>(running_.size())}));
  }
  // Without work its turn would wait.
  bool HasWork(int stream) const {
    return !running_[static_cast<size_t>(stream)].empty() || admission_->load().waiting > 0;
  }
  void Turn(int stream) {
    const auto at = static_cast<size_t>(stream);
    absl::Status end;
    Admission::Requests more;
    ASSERT_TRUE(admission_->Take(stream, ReservedFor(running_[at]), more, end));
    std::move(more.begin(), more.end(), std::back_inserter(running_[at]));
    threads_[at] = admission_->Threads(stream);
  }
  // All that the stream runs is answered.
  void Finish(int stream) {
    for (const auto& request : running_[static_cast<size_t>(stream)]) {
      rows_ -= kind_.rows;
      request->Give(v1::Decoded());
    }
    running_[static_cast<size_t>(stream)].clear();
  }

  Admission& admission() { return *admission_; }
  int rows(int stream) const { return ReservedFor(running_[static_cast<size_t>(stream)]).rows; }
  int threads() const { return std::accumulate(threads_.begin(), threads_.end(), 0); }
  int threads(int stream) const { return threads_[static_cast<size_t>(stream)]; }

 private:
  const Kind kind_;
  const int num_threads_;
  const std::shared_ptr<const DecodeModel> model_;
  std::unique_ptr<Admission> admission_;
  std::vector<Admission::Requests> running_;
  std::vector<int> threads_;
  int rows_ = 0;
};

class ThreadPlanTest : public ::testing::Test {
 protected:
  const std::shared_ptr<const DecodeModel> model_ =
      *DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(1), {}));
};

TEST_F(ThreadPlanTest, NoThreadIsIdleAsLongAsThereAreRows) {
  for (const Kind& kind : kKinds) {
    for (const int in_flight : {1, 2, 3, 4, 8, 15, 16, 31, 32, 33, 64, 100, 128, 256, 512}) {
      for (const int threads : {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 48, 64}) {
        SCOPED_TRACE(testing::Message()
                     << kind.name << ", " << in_flight << " in flight, " << threads << " threads");
        Plan plan(kind, threads, model_);
        plan.Enqueue(in_flight);
        const int active = plan.NumActive();
        // The first turn of each finds what those before it hold; the next ones share evenly.
        for (int turn = 0; turn < 3; ++turn) {
          for (int stream = 0; stream < active; ++stream) {
            if (plan.HasWork(stream)) {
              plan.Turn(stream);
            }
          }
        }
        EXPECT_EQ(plan.threads(), threads);
        int rows = 0;
        int with_fewer_rows = 0;  // than threads: of rows enough, the one that has the rest
        for (int stream = 0; stream < active; ++stream) {
          rows += plan.rows(stream);
          if (plan.rows(stream) == 0) {
            continue;  // requests do not divide evenly: it sleeps, and the others have its threads
          }
          EXPECT_LE(plan.threads(0) - plan.threads(stream), 1);
          with_fewer_rows += plan.rows(stream) < plan.threads(stream) ? 1 : 0;
          EXPECT_GE(plan.threads(0), plan.threads(stream)) << "the remainder is the first ones'";
          // A stream has rows enough, but for what does not divide.
          EXPECT_GE(plan.rows(stream) + active * kind.rows,
                    active == 1 ? 0 : kind.rows_of_a_stream);
        }
        EXPECT_EQ(rows, in_flight * kind.rows) << "all that waits fits";
        if (rows >= threads) {
          EXPECT_LE(with_fewer_rows, active == 1 ? 0 : 1);
        }
      }
    }
  }
}

// The settings that were the fastest where they were measured, on 16 cores.
TEST_F(ThreadPlanTest, ChoosesWhatWasTheFastest) {
  struct Case {
    const char* what;
    int rows;
    bool is_large;
    int threads;
    int streams;
  };
  constexpr Case kCases[] = {
      {"2 x LSTM-1024, 32 sentences", 128, true, 16, 2},
      {"2 x LSTM-1024, 32 sentences", 128, true, 8, 1},
      {"2 x LSTM-1024, 32 sentences", 128, true, 4, 1},
      {"2 x LSTM-1024, 64 sentences", 256, true, 16, 2},
      {"2 x LSTM-1024, 1 sentence", 4, true, 16, 1},
      {"GRU-256, 128 words", 512, false, 16, 8},
      {"GRU-256, 128 words", 512, false, 2, 2},
      {"GRU-256, 16 words", 64, false, 16, 4},
      {"GRU-256, 1 word", 4, false, 16, 1},
  };
  for (const Case& c : kCases) {
    EngineOptions options;
    options.num_threads = c.threads;
    options.num_streams = EngineOptions::kStreamsAsWorkIs;
    EXPECT_EQ(StreamsForRows(c.rows, c.is_large, c.threads, options.MostStreams()), c.streams)
        << c.what << ", " << c.threads << " threads";
  }
}

// Two streams have begun a turn with what they have; the third asks in its midst.
TEST_F(ThreadPlanTest, ThreadsOfATurnUnderWayAreNotGivenTwice) {
  Plan plan(kKinds[0], 12, model_);
  plan.Enqueue(4);
  plan.Turn(0);
  EXPECT_EQ(plan.threads(0), 12);
  plan.Enqueue(8);
  plan.Turn(1);
  EXPECT_EQ(plan.threads(1), 1) << "one is the fewest";
  plan.Turn(0);
  EXPECT_EQ(plan.threads(0), 6);
  plan.Turn(2);
  EXPECT_EQ(plan.threads(2), 4);
  plan.Turn(1);
  EXPECT_EQ(plan.threads(1), 2);
  plan.Turn(0);
  EXPECT_EQ(plan.threads(0), 4);
  plan.Turn(1);
  EXPECT_EQ(plan.threads(1), 4);
}

TEST_F(ThreadPlanTest, AStreamThatFallsAsleepHandsItsThreadsBack) {
  Plan plan(kKinds[1], 16, model_);
  plan.Enqueue(32);
  for (int turn = 0; turn < 2; ++turn) {
    plan.Turn(0);
    plan.Turn(1);
  }
  EXPECT_EQ(plan.threads(0), 8);
  EXPECT_EQ(plan.threads(1), 8);
  plan.Finish(1);
  std::thread sleeper([&plan] {
    Admission::Requests none;
    absl::Status end;
    EXPECT_FALSE(plan.admission().Take(1, {}, none, end));  // when the test ends
    EXPECT_TRUE(none.empty());
  });
  while (plan.admission().Threads(0) != 16) {
    std::this_thread::yield();
  }
  plan.admission().End(absl::UnavailableError("the test is over"));
  sleeper.join();
}

TEST_F(ThreadPlanTest, AFixedNumberOfStreamsHasEqualPartsAndTheFirstOnesTheRemainder) {
  EngineOptions options;
  options.num_threads = 11;
  options.num_streams = 3;
  Admission admission(options, StandingClock);
  EXPECT_EQ(admission.Threads(0), 4);
  EXPECT_EQ(admission.Threads(1), 4);
  EXPECT_EQ(admission.Threads(2), 3);
}

}  // namespace
}  // namespace beamwright::engine
