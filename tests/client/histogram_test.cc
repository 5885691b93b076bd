#include "client/load/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "client/channels.h"
#include "client/load/load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/beamwright/client.h"

namespace beamwright::client {
namespace {

int64_t Us(absl::Duration duration) { return absl::ToInt64Microseconds(duration); }

// The oracle: the smallest value that at least `fraction` of the values do not exceed.
int64_t SortedPercentile(const std::vector<int64_t>& sorted, double fraction) {
  const auto rank =
      static_cast<size_t>(std::max(1.0, std::ceil(fraction * static_cast<double>(sorted.size()))));
  return sorted[rank - 1];
}

TEST(HistogramTest, PercentilesAgreeWithASortedVector) {
  std::mt19937_64 random(7);
  for (const int count : {1, 2, 3, 10, 99, 100, 101, 5000}) {
    // Spread over eight decades, so that exact, fine and coarse buckets all occur.
    std::uniform_real_distribution<double> exponent(0, 9.5);
    Histogram histogram;
    std::vector<int64_t> values;
    for (int i = 0; i < count; ++i) {
      values.push_back(static_cast<int64_t>(std::pow(10, exponent(random))));
      histogram.Record(absl::Microseconds(values.back()));
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(histogram.count(), count);
    EXPECT_EQ(Us(histogram.max()), values.back());
    for (const double fraction : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const int64_t expected = SortedPercentile(values, fraction);
      const int64_t actual = Us(histogram.Percentile(fraction));
      EXPECT_GE(actual, expected) << fraction << " of " << count;
      EXPECT_LE(static_cast<double>(actual), static_cast<double>(expected) * 1.001)
          << fraction << " of " << count;
    }
  }
}

TEST(HistogramTest, MeanDeviationAndCurveAgreeWithASortedVector) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(0, 6);
  Histogram histogram;
  std::vector<int64_t> values;
  double sum = 0;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(static_cast<int64_t>(std::pow(10, exponent(random))));
    histogram.Record(absl::Microseconds(values.back()));
    sum += static_cast<double>(values.back());
  }
  std::sort(values.begin(), values.end());
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const int64_t value : values) {
    squares += std::pow(static_cast<double>(value) - mean, 2);
  }
  EXPECT_NEAR(absl::ToDoubleMicroseconds(histogram.Mean()), mean, 1);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  EXPECT_NEAR(absl::ToDoubleMicroseconds(histogram.StandardDeviation()), deviation,
              deviation * 0.001);
  const std::vector<PercentilePoint> curve = histogram.Curve();
  ASSERT_GT(curve.size(), 30u);
  for (const PercentilePoint& point : curve) {
    const auto above =
        std::upper_bound(values.begin(), values.end(), Us(point.duration)) - values.begin();
    EXPECT_EQ(point.count, above);
    EXPECT_DOUBLE_EQ(point.fraction, static_cast<double>(above) / 3000);
  }
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_LT(curve[i - 1].count, curve[i].count);
    const double left = 1 - curve[i - 1].fraction;
    EXPECT_TRUE(curve[i].fraction - curve[i - 1].fraction <= left / 5 + 2.0 / 3000) << i;
  }
  EXPECT_EQ(curve.back().count, 3000);
  EXPECT_EQ(Us(curve.back().duration), values.back());
  histogram.Reset();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_TRUE(histogram.Curve().empty());
  EXPECT_EQ(histogram.Mean() + histogram.StandardDeviation() + histogram.max(),
            absl::ZeroDuration());
}

TEST(HistogramTest, ExactForSmallValuesAndAtEveryBucketsEdge) {
  for (int shift = 0; shift < 31; ++shift) {
    for (const int64_t value : {(int64_t{1} << shift) - 1, int64_t{1} << shift}) {
      Histogram histogram;
      histogram.Record(absl::Microseconds(value));
      histogram.Record(absl::Hours(1));
      const int64_t p50 = Us(histogram.Percentile(0.5));
      EXPECT_GE(p50, value);
      EXPECT_LE(p50, value < 2048 ? value : value + value / 1000) << value;
    }
  }
}

TEST(HistogramTest, RoundsToTheNearestMicrosecond) {
  for (const auto& [ns, us] : {std::pair(1499, 1), {1500, 2}, {1999, 2}, {499, 0}, {500, 1}}) {
    Histogram histogram;
    histogram.Record(absl::Nanoseconds(ns));
    EXPECT_EQ(Us(histogram.max()), us) << ns;
  }
}

TEST(HistogramTest, OutOfRangeAndEmpty) {
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.max(), absl::ZeroDuration());
  histogram.Record(absl::Seconds(-1));
  EXPECT_EQ(histogram.Percentile(1), absl::ZeroDuration());
  histogram.Record(absl::InfiniteDuration());
  EXPECT_EQ(histogram.max(), absl::Hours(1));
  EXPECT_EQ(histogram.count(), 2);
}

TEST(HistogramTest, ThreadsLoseNothing) {
  Histogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 10'000; ++i) {
        histogram.Record(absl::Microseconds(i * (t + 1)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(histogram.count(), 40'000);
  EXPECT_EQ(Us(histogram.max()), 40'000);
}

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

std::vector<double> Gaps(Arrivals kind, double rate, uint64_t seed, int count) {
  ArrivalTimes times(kind, rate, seed);
  std::vector<double> gaps;
  double last = 0;
  for (int i = 0; i < count; ++i) {
    const double time = absl::ToDoubleSeconds(times.Next());
    gaps.push_back(time - last);
    last = time;
  }
  return gaps;
}

TEST(ArrivalTimesTest, EvenArrivalsDoNotDrift) {
  ArrivalTimes times(Arrivals::kEven, 3, 1);
  for (int i = 1; i < 3'000'000; ++i) {
    times.Next();
  }
  EXPECT_EQ(times.Next(), absl::Seconds(1'000'000));
}

// What makes a Poisson process: mean and standard deviation of the gaps are 1 / rate, a share of 1
// - 1/e of them is below it, and a gap says nothing about the next.
TEST(ArrivalTimesTest, PoissonGapsAreExponentialAndIndependent) {
  constexpr int kCount = 200'000;
  constexpr double kRate = 50;
  const std::vector<double> gaps = Gaps(Arrivals::kPoisson, kRate, 7, kCount);
  double sum = 0, squares = 0, products = 0;
  for (int i = 0; i < kCount; ++i) {
    sum += gaps[i];
    squares += gaps[i] * gaps[i];
    products += gaps[i] * gaps[(i + 1) % kCount];
  }
  const double mean = sum / kCount;
  const double variance = squares / kCount - mean * mean;
  EXPECT_NEAR(mean * kRate, 1, 0.01);
  EXPECT_NEAR(std::sqrt(variance) * kRate, 1, 0.02);
  EXPECT_NEAR((products / kCount - mean * mean) / variance, 0, 0.01);
  const auto below =
      std::count_if(gaps.begin(), gaps.end(), [](double gap) { return gap * kRate < 1; });
  EXPECT_NEAR(static_cast<double>(below) / kCount, 1 - std::exp(-1), 0.005);
  EXPECT_GE(*std::min_element(gaps.begin(), gaps.end()), 0);
}

TEST(ArrivalTimesTest, SeedDecides) {
  EXPECT_EQ(Gaps(Arrivals::kPoisson, 9, 3, 100), Gaps(Arrivals::kPoisson, 9, 3, 100));
  EXPECT_NE(Gaps(Arrivals::kPoisson, 9, 3, 100), Gaps(Arrivals::kPoisson, 9, 4, 100));
}

}  // namespace

}  // namespace beamwright::client
