#include "client/load/tally.h"

#include "client/channels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/beamwright/client.h"

namespace beamwright::client {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::Pair;

// Moments by their milliseconds since the start.
Tally::Clock::time_point At(int ms) { return Tally::Clock::time_point() + milliseconds(ms); }

constexpr int kRefused = -1;

// An answer with a source for each number of tokens; 0: a source that is invalid.
v1::DecodeResponse Answer(std::initializer_list<int> tokens) {
  v1::DecodeResponse response;
  for (const int count : tokens) {
    v1::Result& result = *response.add_results();
    if (count <= 0) {
      result.mutable_error()->set_code(static_cast<int>(count == kRefused
                                                            ? absl::StatusCode::kResourceExhausted
                                                            : absl::StatusCode::kInvalidArgument));
      continue;
    }
    for (int hypothesis = 0; hypothesis < 2; ++hypothesis) {
      auto& added = *result.mutable_decoded()->add_hypotheses();
      for (int i = 0; i < count + hypothesis; ++i) {
        added.add_tokens(i);
      }
    }
  }
  return response;
}

TEST(TallyTest, LatencyCountsFromWhenACallWasDue) {
  Tally tally(At(0), LoadOptions());
  // Due every 10 ms, but the sender was held up until 100 ms; each answer takes 5 ms.
  for (int i = 0; i < 10; ++i) {
    tally.Sent(At(10 * i), At(100));
    tally.Ended(At(10 * i), At(105), Answer({1}));
  }
  const LoadReport report = tally.Report();
  EXPECT_EQ(report.latency.max, absl::Milliseconds(105));
  EXPECT_GE(report.latency.p50, absl::Milliseconds(55));
  EXPECT_EQ(report.lag.max, absl::Milliseconds(100));
  EXPECT_EQ(report.elapsed, absl::Milliseconds(105));
}

TEST(TallyTest, FirstTokensAreTimedApartFromAnswers) {
  Tally tally(At(0), LoadOptions());
  tally.FirstToken(At(10), At(13));
  tally.Ended(At(10), At(50), Answer({4}));
  const LoadReport report = tally.Report();
  EXPECT_EQ(report.first_token.max, absl::Milliseconds(3));
  EXPECT_EQ(report.latency.max, absl::Milliseconds(40));
}

TEST(TallyTest, RefusalsAreTimedApartFromAnswers) {
  Tally tally(At(0), LoadOptions());
  tally.Ended(At(0), At(40), Answer({1}));
  tally.Ended(At(0), At(1), absl::ResourceExhaustedError("queue"));
  tally.Ended(At(0), At(2), absl::UnavailableError("drains"));
  tally.Ended(At(0), At(900), absl::DeadlineExceededError("late"));
  const LoadReport report = tally.Report();
  EXPECT_EQ(report.latency.p50, absl::Milliseconds(40));
  EXPECT_EQ(report.refused.max, absl::Milliseconds(2));
  EXPECT_THAT(report.failed_calls, ElementsAre(Pair(absl::StatusCode::kDeadlineExceeded, 1),
                                               Pair(absl::StatusCode::kResourceExhausted, 1),
                                               Pair(absl::StatusCode::kUnavailable, 1)));
  EXPECT_EQ(report.first_failure, absl::ResourceExhaustedError("queue"));
}

// What became of their sources is in the details.
TEST(TallyTest, SourcesOfCallsThatFailedForThemAreCounted) {
  v1::SourceErrors sources;
  for (const auto& [code, count] : {std::pair(absl::StatusCode::kInvalidArgument, 2),
                                    {absl::StatusCode::kResourceExhausted, 5}}) {
    v1::CodeCount& added = *sources.add_counts();
    added.set_code(static_cast<int>(code));
    added.set_sources(count);
  }
  google::rpc::Status call;
  call.add_details()->PackFrom(sources);
  Tally tally(At(0), LoadOptions());
  tally.Ended(At(0), At(3),
              FromGrpcStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "all 7",
                                          call.SerializeAsString())));
  tally.Ended(At(0), At(9), Answer({4, kRefused}));
  const LoadReport report = tally.Report();
  EXPECT_EQ(report.num_calls, 1);
  EXPECT_EQ(report.num_sources, 1);
  EXPECT_EQ(report.refused.max, absl::Milliseconds(3));
  EXPECT_EQ(report.latency.max, absl::Milliseconds(9));
  EXPECT_THAT(report.failed_calls, ElementsAre(Pair(absl::StatusCode::kResourceExhausted, 1)));
  EXPECT_THAT(report.failed_sources, ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 2),
                                                 Pair(absl::StatusCode::kResourceExhausted, 6)));
}

// Of a server that answers a call with nothing but errors.
TEST(TallyTest, CallsAllOfWhoseSourcesWereRefusedAreRefusals) {
  Tally tally(At(0), LoadOptions());
  tally.Ended(At(0), At(3), Answer({kRefused, kRefused}));
  tally.Ended(At(0), At(70), Answer({kRefused, 2}));
  tally.Ended(At(0), At(900), Answer({0}));
  const LoadReport report = tally.Report();
  EXPECT_EQ(report.num_calls, 3);
  EXPECT_EQ(report.num_sources, 1);
  EXPECT_EQ(report.num_good, 0);
  EXPECT_EQ(report.refused.max, absl::Milliseconds(3));
  EXPECT_EQ(report.latency.max, absl::Milliseconds(70));
  EXPECT_THAT(report.failed_sources, ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 1),
                                                 Pair(absl::StatusCode::kResourceExhausted, 3)));
}

TEST(TallyTest, GoodCallsAreInTimeAndWhole) {
  Tally tally(At(0), {.good_within = absl::Milliseconds(50)});
  tally.Ended(At(100), At(150), Answer({3, 4}));  // just in time
  tally.Ended(At(100), At(151), Answer({5}));     // too late
  tally.Ended(At(100), At(110), Answer({6, 0}));  // a source failed
  tally.Ended(At(100), At(101), absl::InternalError("bug"));
  tally.Skipped();
  const LoadReport report = tally.Report();
  EXPECT_EQ(report.num_calls, 3);
  EXPECT_EQ(report.num_good, 1);
  EXPECT_EQ(report.num_sources, 4);
  EXPECT_EQ(report.num_tokens, 3 + 4 + 5 + 6);  // of best hypotheses alone
  EXPECT_EQ(report.num_skipped, 1);
  EXPECT_THAT(report.failed_sources, ElementsAre(Pair(absl::StatusCode::kInvalidArgument, 1)));
}

TEST(TallyTest, ACallThatTakesExactlyItsLimitIsInTime) {
  LoadOptions options;
  options.limits = {absl::Milliseconds(50), absl::Milliseconds(100)};
  options.first_limits = {absl::Milliseconds(10)};
  Tally tally(At(0), options);
  for (const int took : {49, 50, 51, 100, 101}) {
    tally.Ended(At(100), At(100 + took), Answer({1}));
  }
  for (const int took : {9, 10, 11}) {
    tally.FirstToken(At(100), At(100 + took));
  }
  const std::vector<LoadInterval> timeline = tally.Report().timeline;
  ASSERT_EQ(timeline.size(), 1u);
  EXPECT_THAT(timeline[0].num_over, ElementsAre(3, 1));
  EXPECT_THAT(timeline[0].num_first_over, ElementsAre(1));
}

TEST(TallyTest, TheTimelineHasEveryPartOfTheRun) {
  Tally tally(At(0), LoadOptions());
  tally.Ended(At(0), At(10), Answer({1}));
  tally.Ended(At(500), At(900), Answer({1}));
  tally.Ended(At(2900), At(3200), Answer({1}));
  tally.Ended(At(3000), At(3300), absl::UnavailableError("down"));
  const std::vector<LoadInterval> timeline = tally.Report().timeline;
  ASSERT_EQ(timeline.size(), 4u);
  EXPECT_EQ(timeline[0].num_calls, 2);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(timeline[0].p50), 10, 0.01);  // ends of buckets
  EXPECT_EQ(timeline[0].p99, absl::Milliseconds(400));
  EXPECT_EQ(timeline[1].num_calls + timeline[2].num_calls, 0);
  EXPECT_EQ(timeline[2].p99, absl::ZeroDuration());
  EXPECT_EQ(timeline[3].begin, absl::Seconds(3));
  EXPECT_EQ(timeline[3].num_calls, 1);
  EXPECT_EQ(timeline[3].num_failed, 1);
  EXPECT_EQ(timeline[3].p99, absl::Milliseconds(300));
}

TEST(ClientBottleneckTest, NamesWhatMakesARunInvalid) {
  LoadReport report;
  report.num_calls = 1000;
  report.latency.p99 = absl::Milliseconds(50);
  report.lag.p99 = absl::Milliseconds(4);
  report.wall_time = absl::Seconds(10);
  report.cpu_time = absl::Seconds(15);
  EXPECT_EQ(ClientBottleneck(report, 2), "");
  report.cpu_time = absl::Seconds(17);
  EXPECT_EQ(ClientBottleneck(report, 2), "the client itself used 1.7 of this machine's 2 CPUs");
  EXPECT_EQ(ClientBottleneck(report, 4), "");
  report.lag.p99 = absl::Milliseconds(6);
  EXPECT_THAT(ClientBottleneck(report, 4), ::testing::HasSubstr("sent 6.0 ms late or more"));
  report.num_skipped = 1;
  report.lag.p99 = absl::ZeroDuration();
  EXPECT_EQ(ClientBottleneck(report, 4), "") << "one of a thousand";
  report.num_skipped = 5;
  EXPECT_THAT(ClientBottleneck(report, 4), ::testing::HasSubstr("5 calls that were due"));
}

}  // namespace
}  // namespace beamwright::client
