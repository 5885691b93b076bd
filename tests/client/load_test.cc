#include "client/load/load.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"

namespace beamwright::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

LoadOptions Calls(int64_t max_calls, std::initializer_list<const char*> texts) {
  LoadOptions options;
  options.warmup = absl::ZeroDuration();
  options.duration = absl::Hours(1);
  options.timeout = absl::Minutes(2);
  options.max_calls = max_calls;
  for (const char* text : texts) {
    options.sources.emplace_back().set_text(text);
  }
  return options;
}

absl::StatusOr<LoadReport> Load(const FakeServer& server, const LoadOptions& options) {
  auto client = *Client::Connect({.address = server.address(), .max_attempts = 1});
  return RunLoad(*client, options);
}

TEST(LoadTest, CountsWhatTheServerCounts) {
  FakeServer server;
  LoadOptions options = Calls(300, {"a", "b", "bad", "c", "d"});
  options.batch = 3;
  options.concurrency = 7;
  options.request.mutable_options()->set_beam_size(9);
  const auto report = Load(server, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_calls, 300);
  EXPECT_EQ(server.requests().size(), 300u);
  EXPECT_EQ(server.num_sources(), 900);
  EXPECT_EQ(server.requests()[17].options().beam_size(), 9);
  // 900 sources go 180 times round the five.
  EXPECT_EQ(report->num_sources, 720);
  EXPECT_THAT(report->failed_sources, ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 180)));
  EXPECT_TRUE(report->failed_calls.empty());
  EXPECT_EQ(report->first_failure, absl::InvalidArgumentError("cannot decode bad"));
  EXPECT_GT(report->elapsed, absl::ZeroDuration());
  EXPECT_GT(report->latency.p50, absl::ZeroDuration());
  EXPECT_LE(report->latency.p50, report->latency.p90);
  EXPECT_LE(report->latency.p90, report->latency.p99);
  EXPECT_LE(report->latency.p99, report->latency.max);
  EXPECT_FALSE(report->gave_up || report->stopped);
}

TEST(LoadTest, CountsFailedCallsByCode) {
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    const std::string& text = request.sources(0).text();
    return text == "full"      ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "queue")
           : text == "crashed" ? grpc::Status(grpc::StatusCode::INTERNAL, "bug")
                               : EchoAll(context, request, response);
  });
  const auto report = Load(server, Calls(100, {"a", "full", "crashed", "full", "b"}));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_calls, 40);
  EXPECT_EQ(report->num_sources, 40);
  EXPECT_THAT(report->failed_calls, ElementsAre(Pair(absl::StatusCode::kResourceExhausted, 40),
                                                Pair(absl::StatusCode::kInternal, 20)));
}

// Sources that no server can decode say nothing of the server: the run goes on.
TEST(LoadTest, BadSourcesAreNoReasonToGiveUp) {
  constexpr int kCalls = 1200;  // more in a row than a dead server is given
  FakeServer server;
  LoadOptions options = Calls(kCalls, {"bad"});
  options.batch = 2;
  const auto report = Load(server, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->gave_up);
  EXPECT_EQ(report->num_calls, 0);
  EXPECT_THAT(report->failed_calls, ElementsAre(Pair(absl::StatusCode::kInvalidArgument, kCalls)));
  EXPECT_THAT(report->failed_sources,
              ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 2 * kCalls)));
}

// Only failures in a row show that no server is there.
TEST(LoadTest, AnAnswerBetweenFailuresIsAReasonToGoOn) {
  constexpr int kCalls = 1200;
  FakeServer server([](grpc::ServerContext& context, const v1::DecodeRequest& request,
                       v1::DecodeResponse& response) {
    return request.sources(0).text() == "gone" ? grpc::Status(grpc::StatusCode::NOT_FOUND, "gone")
                                               : EchoAll(context, request, response);
  });
  const auto report = Load(server, Calls(2 * kCalls, {"a", "gone"}));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->gave_up);
  EXPECT_EQ(report->num_calls, kCalls);
  EXPECT_THAT(report->failed_calls, ElementsAre(Pair(absl::StatusCode::kNotFound, kCalls)));
  EXPECT_EQ(report->lag.max, absl::ZeroDuration()) << "a closed loop is never late";
}

TEST(LoadTest, KeepsExactlyTheConcurrencyInFlight) {
  constexpr int kConcurrency = 5;
  absl::Mutex mutex;
  int num_arrived = 0, in_flight = 0, most = 0;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    absl::MutexLock lock(&mutex);
    ++num_arrived;
    most = std::max(most, ++in_flight);
    // No call is answered before all are there.
    const auto all_there = [&] { return num_arrived >= kConcurrency; };
    mutex.Await(absl::Condition(&all_there));
    --in_flight;
    return EchoAll(context, request, response);
  });
  LoadOptions options = Calls(50, {"a"});
  options.concurrency = kConcurrency;
  ASSERT_TRUE(Load(server, options).ok());
  EXPECT_EQ(most, kConcurrency);
}

TEST(LoadTest, StreamsAreTimedToTheirFirstStableToken) {
  FakeServer server;
  LoadOptions options = Calls(60, {"a", "bad", "c"});
  options.stream = true;
  options.concurrency = 3;
  options.request.mutable_options()->set_beam_size(9);
  const auto report = Load(server, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_calls, 40);
  EXPECT_EQ(report->num_sources, 40);
  EXPECT_THAT(report->failed_calls, ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 20)));
  EXPECT_EQ(server.requests()[17].options().beam_size(), 9);
  EXPECT_GT(report->first_token.p50, absl::ZeroDuration());
  EXPECT_LE(report->first_token.p50, report->latency.max);
  options.batch = 2;
  EXPECT_THAT(std::string(Load(server, options).status().message()), HasSubstr("streams have one"));
}

// Streams are calls as any other: due at their times, and given up.
TEST(LoadTest, StreamsCanBeAnOpenLoop) {
  FakeServer server;
  LoadOptions options = Calls(40, {"a"});
  options.stream = true;
  options.rate = 400;
  options.concurrency = kMaxConcurrency;
  const auto report = Load(server, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_calls, 40);
  EXPECT_GT(report->lag.max, absl::ZeroDuration());
  EXPECT_GT(report->first_token.max, absl::ZeroDuration());
}

LoadOptions OpenLoop(int64_t max_calls, double rate) {
  LoadOptions options = Calls(max_calls, {"a"});
  options.rate = rate;
  options.arrivals = Arrivals::kEven;
  options.concurrency = kMaxConcurrency;
  return options;
}

// Answers no call before this number of calls has come in.
DecodeHandler AllAtOnce(int count, absl::Mutex& mutex, int& num_arrived) {
  return
      [count, &mutex, &num_arrived](grpc::ServerContext& context, const v1::DecodeRequest& request,
                                    v1::DecodeResponse& response) {
        absl::MutexLock lock(&mutex);
        ++num_arrived;
        const auto all_there = [&] { return num_arrived >= count; };
        mutex.Await(absl::Condition(&all_there));
        return EchoAll(context, request, response);
      };
}

// A closed loop would wait for the first answer for ever. The first call was due at 5 ms, and no
// answer came before the last was due, at 300 ms: so its latency is at least the difference.
TEST(LoadTest, AnOpenLoopWaitsForNobodyAndCountsTheWait) {
  constexpr int kCalls = 60;
  absl::Mutex mutex;
  int num_arrived = 0;
  FakeServer server(AllAtOnce(kCalls, mutex, num_arrived));
  const auto report = Load(server, OpenLoop(kCalls, 200));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_calls, kCalls);
  EXPECT_EQ(report->num_good, kCalls);
  EXPECT_EQ(report->num_skipped, 0);
  EXPECT_GE(report->latency.max, absl::Milliseconds(295));
  EXPECT_GE(report->latency.p50, absl::Milliseconds(140));
  EXPECT_GE(report->elapsed, absl::Milliseconds(300));
  EXPECT_GT(report->lag.max, absl::ZeroDuration()) << "no client sends at the very moment";
}

// A rate at which one thread sends calls and takes their answers.
TEST(LoadTest, AnOpenLoopAtAHighRateCountsTheSame) {
  constexpr int kCalls = 400;
  FakeServer server;
  auto client = *Client::Connect({.address = server.address(), .max_attempts = 1});
  LoadOptions options = OpenLoop(kCalls, 20'000);
  options.sources.emplace_back().set_text("bad");
  for (int run = 1; run <= 2; ++run) {
    const auto report = RunLoad(*client, options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_calls, kCalls / 2);
    EXPECT_EQ(report->num_sources, kCalls / 2);
    EXPECT_THAT(report->failed_calls,
                ElementsAre(Pair(absl::StatusCode::kInvalidArgument, kCalls / 2)));
    EXPECT_EQ(report->failed_sources, report->failed_calls);
    EXPECT_EQ(report->num_skipped, 0);
    EXPECT_EQ(server.requests().size(), static_cast<size_t>(run * kCalls));
  }
  // And the client is what it was.
  v1::DecodeRequest request;
  request.add_sources()->set_text("a");
  absl::Notification answered;
  client->DecodeAsync(request, absl::Now() + absl::Minutes(1),
                      [&](const auto&) { answered.Notify(); });
  answered.WaitForNotification();
}

// Answers no call until it is released.
DecodeHandler After(absl::Notification& release) {
  return [&release](grpc::ServerContext& context, const v1::DecodeRequest& request,
                    v1::DecodeResponse& response) {
    release.WaitForNotification();
    return EchoAll(context, request, response);
  };
}

// Ends a load when this number of calls has come in.
std::thread StopAt(FakeServer& server, size_t count, std::atomic<bool>& stop) {
  return std::thread([&server, count, &stop] {
    server.WaitForRequests(count);
    stop = true;
  });
}

TEST(LoadTest, StopEndsAnOpenLoopAtAHighRate) {
  absl::Notification release;
  FakeServer server(After(release));
  std::atomic<bool> stop{false};
  LoadOptions options = OpenLoop(0, 20'000);
  options.concurrency = 3;
  options.stop = &stop;
  std::thread stopper = StopAt(server, 3, stop);
  const auto report = Load(server, options);
  stopper.join();
  release.Notify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->stopped);
  EXPECT_EQ(report->num_calls, 0);
}

TEST(LoadTest, AnOpenLoopSkipsWhatIsDueBeyondItsLimit) {
  constexpr int kLimit = 4;
  absl::Notification release;
  FakeServer server(After(release));
  LoadOptions options = OpenLoop(0, 1000);
  options.duration = absl::Milliseconds(100);
  options.concurrency = kLimit;
  std::thread releaser([&] {
    server.WaitForRequests(kLimit);
    release.Notify();
  });
  const auto report = Load(server, options);
  releaser.join();
  ASSERT_TRUE(report.ok()) << report.status();
  // Due at 1, 2, ... 99 ms: each was sent or skipped.
  EXPECT_EQ(report->num_calls + report->num_skipped, 99);
  EXPECT_GE(report->num_calls, kLimit);
  EXPECT_EQ(report->num_calls, static_cast<int64_t>(server.requests().size()));
}

// No call is answered before the last call was due, so that no place is free again.
TEST(LoadTest, AnOpenLoopSendsNoMoreThanItsLimit) {
  constexpr int kLimit = 4;
  absl::Notification release;
  FakeServer server(After(release));
  LoadOptions options = OpenLoop(0, 1000);
  options.duration = absl::Milliseconds(100);
  options.timeout = absl::Seconds(2);
  options.concurrency = kLimit;
  const auto report = Load(server, options);
  release.Notify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_skipped, 99 - kLimit);
  EXPECT_THAT(report->failed_calls, ElementsAre(Pair(absl::StatusCode::kDeadlineExceeded, kLimit)));
}

TEST(LoadTest, WarmUpIsNotCounted) {
  FakeServer server;
  LoadOptions options = Calls(0, {"a"});
  options.warmup = absl::Milliseconds(30);
  options.duration = absl::Milliseconds(30);
  const auto report = Load(server, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->num_calls, static_cast<int64_t>(server.requests().size()));
  // The client's CPU time is of both, and so is the time that it is held against.
  EXPECT_GE(report->wall_time, absl::Milliseconds(60));
}

TEST(LoadTest, TheClientsCpusAreItsTimeOverThatOfTheRun) {
  LoadReport report;
  EXPECT_EQ(ClientCpus(report), 0);
  report.cpu_time = absl::Seconds(3);
  report.wall_time = absl::Seconds(2);
  report.elapsed = absl::Seconds(1);  // without the warm-up
  EXPECT_EQ(ClientCpus(report), 1.5);
}

// Answers at once, as if calls that are to be given up had been; keeps when that would be.
class GivenUpTarget final : public LoadTarget {
 public:
  void Send(LoadCall call, LoadDone done) override {
    cancel_after.push_back(call.settings.cancel_after);
    if (cancel_after.back() == absl::InfiniteDuration()) {
      done(v1::DecodeResponse());
    } else {
      done(absl::CancelledError("given up"));
    }
  }
  void CancelOutstanding() override {}
  int most_in_flight() const override { return 1; }

  std::vector<absl::Duration> cancel_after;
};

// By chance, or because the call says so, whichever is earlier.
TEST(LoadTest, CallsOfAMixAreGivenUpAsWell) {
  LoadOptions options = Calls(400, {});
  options.concurrency = 1;
  options.mix.resize(2);
  options.mix[1].settings.cancel_after = absl::Milliseconds(3);
  options.cancel_share = 0.5;
  options.cancel_after = absl::Milliseconds(7);
  GivenUpTarget target;
  const auto report = RunLoad(target, options);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(target.cancel_after.size(), 400);
  int by_chance = 0;
  for (size_t i = 0; i < 400; ++i) {
    const absl::Duration after = target.cancel_after[i];
    if (i % 2 == 1) {
      EXPECT_EQ(after, absl::Milliseconds(3));
    } else if (after != absl::InfiniteDuration()) {
      EXPECT_EQ(after, absl::Milliseconds(7));
      ++by_chance;
    }
  }
  EXPECT_NEAR(by_chance, 100, 30);
  EXPECT_EQ(report->num_cancelled, 200 + by_chance);
}

TEST(LoadTest, StopCancelsWhatIsInFlightAndKeepsTheRest) {
  absl::Notification release;
  FakeServer server([&](grpc::ServerContext& context, const v1::DecodeRequest& request,
                        v1::DecodeResponse& response) {
    if (request.sources(0).text() == "hang") {
      release.WaitForNotification();
    }
    return EchoAll(context, request, response);
  });
  std::atomic<bool> stop{false};
  LoadOptions options = Calls(0, {"a", "b", "hang"});
  options.concurrency = 2;
  options.stop = &stop;
  // Both slots end up with a hanging call, after a, b, and one more a and b.
  std::thread stopper = StopAt(server, 6, stop);
  const auto report = Load(server, options);
  stopper.join();
  release.Notify();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->stopped);
  EXPECT_EQ(report->num_calls, 4);
  EXPECT_TRUE(report->failed_calls.empty());
}

TEST(LoadTest, GivesUpOnADeadServer) {
  LoadOptions options = Calls(0, {"a"});
  auto client = *Client::Connect({.address = "127.0.0.1:1", .max_attempts = 1});
  const auto report = RunLoad(*client, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->gave_up);
  EXPECT_EQ(report->num_calls, 0);
  EXPECT_TRUE(absl::IsUnavailable(report->first_failure)) << report->first_failure;
}

TEST(LoadTest, RefusesOptionsOutOfRange) {
  FakeServer server;
  const auto message = [&](auto change) {
    LoadOptions options = Calls(1, {"a"});
    change(options);
    return std::string(Load(server, options).status().message());
  };
  EXPECT_THAT(message([](LoadOptions& o) { o.sources.clear(); }), HasSubstr("no sources"));
  EXPECT_THAT(message([](LoadOptions& o) { o.batch = 0; }), HasSubstr("batch"));
  EXPECT_THAT(message([](LoadOptions& o) { o.concurrency = 5000; }), HasSubstr("1 to 4096"));
  EXPECT_THAT(message([](LoadOptions& o) { o.max_calls = -1; }), HasSubstr("max_calls"));
  EXPECT_THAT(message([](LoadOptions& o) { o.rate = -1; }), HasSubstr("rate is -1"));
  EXPECT_THAT(message([](LoadOptions& o) { o.rate = std::nan(""); }), HasSubstr("rate is nan"));
  EXPECT_THAT(message([](LoadOptions& o) { o.good_within = absl::Seconds(-1); }),
              HasSubstr("good_within is -1s"));
  EXPECT_THAT(message([](LoadOptions& o) { o.duration = absl::InfiniteDuration(); }),
              HasSubstr("duration is inf"));
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace beamwright::client
