// The search for the highest rate, against made-up servers whose answers are known: no clock, no
// network.
#include "client/load/max_rate.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::HasSubstr;

// Seconds of a run of which each call is at fault with a separate chance.
std::vector<std::pair<int64_t, int64_t>> Seconds(int seconds, int calls, double chance,
                                                 std::mt19937& random) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  std::binomial_distribution<int64_t> faults(calls, chance);
  for (int i = 0; i < seconds; ++i) {
    parts.emplace_back(faults(random), calls);
  }
  return parts;
}

TEST(BoundShareTest, IsWrongNoMoreOftenThanItSays) {
  std::mt19937 random(3);
  constexpr int kRounds = 2000;
  for (const double chance : {0.002, 0.01, 0.2}) {
    int above = 0, below = 0;
    for (int round = 0; round < kRounds; ++round) {
      const ShareBounds bounds = BoundShare(Seconds(10, 200, chance, random));
      above += chance > bounds.upper ? 1 : 0;
      below += chance < bounds.lower ? 1 : 0;
    }
    // 5 % are allowed; a twentieth of 2,000 deviates by ten.
    EXPECT_LT(above, 0.05 * kRounds + 30) << chance;
    EXPECT_LT(below, 0.05 * kRounds + 30) << chance;
  }
}

// Calls that wait in one queue are slow together: as one call each, the bounds would be too near.
TEST(BoundShareTest, CountsCallsThatAreSlowTogetherForLess) {
  std::mt19937 random(4);
  constexpr int kRounds = 1000;
  constexpr double kShare = 0.05;
  int above = 0;
  double width = 0, alone = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (int i = 0; i < 20; ++i) {  // whole seconds at a time, one in twenty
      const bool slow = std::bernoulli_distribution(kShare)(random);
      parts.emplace_back(slow ? 100 : 0, 100);
    }
    const ShareBounds bounds = BoundShare(parts);
    above += kShare > bounds.upper ? 1 : 0;
    width += bounds.upper - bounds.share;
    alone += BoundShare(Seconds(20, 100, kShare, random)).upper - kShare;
  }
  // Where no second was slow (36 % of the rounds) nothing is known of how they hang together.
  EXPECT_LT(above, 0.42 * kRounds);
  EXPECT_GT(width, 2 * alone);
}

TEST(BoundShareTest, NothingSeenIsNotNothing) {
  EXPECT_EQ(BoundShare({}).upper, 1);
  for (const int64_t calls : {126, 129, 154, 605, 4001}) {
    EXPECT_EQ(BoundShare({{{0, calls}}}).lower, 0) << calls;
  }
  const ShareBounds bounds = BoundShare({{{0, 500}, {0, 500}}});
  EXPECT_EQ(bounds.share, 0);
  EXPECT_EQ(bounds.lower, 0);
  // Wilson's bound of none in 1,000: z^2 / (n + z^2).
  EXPECT_NEAR(bounds.upper, 2.706 / 1002.706, 1e-4);
}

// Two or three seconds by hand: the differences of faults from the share of the second's calls, and
// Cochran's standard error with n / (n - 1).
TEST(BoundShareTest, IsCochransRatioEstimate) {
  // Share 0.2: 1 of 10 is one below, 3 of 10 one above. t of one degree of freedom is 6.314.
  const ShareBounds two = BoundShare({{{1, 10}, {3, 10}}});
  EXPECT_DOUBLE_EQ(two.share, 0.2);
  EXPECT_NEAR(two.upper, 0.2 + 6.314 * std::sqrt(2.0 * 2 / 1) / 20, 1e-9);
  // Share 0.1: off by -20, +20 and 0; two degrees of freedom. A second without calls does not
  // count.
  const ShareBounds three = BoundShare({{{20, 400}, {0, 0}, {60, 400}, {20, 200}}});
  EXPECT_DOUBLE_EQ(three.share, 0.1);
  EXPECT_NEAR(three.upper, 0.1 + 2.920 * std::sqrt(800.0 * 3 / 2) / 1000, 1e-9);
  EXPECT_EQ(three.lower, 0) << "0.1 - 0.101";
}

// A server that answers `capacity` calls a second in time and the rest too late.
class FakeServerAt {
 public:
  explicit FakeServerAt(double capacity) : capacity_(capacity) {}

  absl::StatusOr<LoadReport> Run(const LoadOptions& load) {
    ++num_runs_;
    LoadReport report;
    const double rate = load.rate > 0 ? load.rate : capacity_;
    const auto seconds = static_cast<int>(std::ceil(absl::ToDoubleSeconds(load.duration)));
    for (int i = 0; i < seconds; ++i) {
      LoadInterval& part = report.timeline.emplace_back();
      part.begin = absl::Seconds(i);
      part.length = absl::Seconds(1);
      part.num_calls = std::poisson_distribution<int64_t>(rate)(random_);
      report.num_calls += part.num_calls;
      // What a client sends late is answered late.
      const double late = rate > sends_at_most_ ? 1 : std::max(0.001, 1 - capacity_ / rate);
      part.num_over = {std::binomial_distribution<int64_t>(part.num_calls, late)(random_)};
      part.num_over.resize(load.limits.size(), part.num_over[0]);
    }
    report.elapsed = load.duration;
    if (rate > sends_at_most_) {
      report.lag.p99 = report.latency.p99 = absl::Seconds(1);
    }
    return report;
  }

  LoadRunner runner() {
    return [this](const LoadOptions& load) { return Run(load); };
  }

  double sends_at_most_ = 1e9;  // of the client
  int num_runs_ = 0;

 private:
  const double capacity_;
  std::mt19937 random_{5};
};

const std::vector<SloClause> kSlo = {
    {"p90<50ms", SloClause::Of::kAnswers, absl::Milliseconds(50), 0.1}};

TEST(MaxRateTest, FindsWhatTheServerCanDo) {
  for (const double capacity : {3.0, 140.0, 20'000.0}) {
    FakeServerAt server(capacity);
    const auto found = FindMaxRate(server.runner(), LoadOptions(), kSlo, {});
    ASSERT_TRUE(found.ok()) << found.status();
    // A tenth may be late, so a ninth more than the capacity holds.
    EXPECT_LE(found->rate, capacity / 0.9 * 1.01) << capacity;
    EXPECT_GE(found->rate, capacity / 0.9 * 0.85) << capacity;
    EXPECT_LE(found->broken_at, found->rate * 1.12);
    EXPECT_TRUE(found->confirmed);
    EXPECT_TRUE(found->trials.back().confirms);
    EXPECT_EQ(found->trials.back().verdict, Verdict::kHolds);
    EXPECT_FALSE(found->client_bound);
    EXPECT_LT(server.num_runs_, 40);
  }
}

TEST(MaxRateTest, StaysWithinItsBounds) {
  FakeServerAt server(1000);
  const auto found =
      FindMaxRate(server.runner(), LoadOptions(), kSlo, {.lowest = 100, .highest = 300});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->rate, 300);
  EXPECT_EQ(found->broken_at, 0);
  EXPECT_TRUE(found->confirmed);
  const auto none =
      FindMaxRate(server.runner(), LoadOptions(), kSlo, {.lowest = 2000, .highest = 3000});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->rate, 0);
  EXPECT_EQ(none->broken_at, 2000);
  EXPECT_FALSE(none->confirmed);
}

TEST(MaxRateTest, SaysWhenTheClientIsTheBound) {
  FakeServerAt server(1000);
  server.sends_at_most_ = 400;
  const auto found = FindMaxRate(server.runner(), LoadOptions(), kSlo, {.lowest = 100});
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->client_bound);
  EXPECT_LE(found->rate, 400);
  EXPECT_GT(found->rate, 300);
}

// What is tried after the server's end says nothing of a rate.
TEST(MaxRateTest, EndsWithAServerThatIsGone) {
  FakeServerAt server(1000);
  constexpr int kGoodRuns = 4;
  const LoadRunner dies = [&](const LoadOptions& load) -> absl::StatusOr<LoadReport> {
    if (server.num_runs_ < kGoodRuns) {
      return server.Run(load);
    }
    ++server.num_runs_;
    LoadReport report;
    report.first_failure = absl::UnavailableError("gone");
    report.failed_calls[absl::StatusCode::kUnavailable] = 10;
    report.timeline = {{.length = absl::Seconds(1), .num_failed = 10, .num_over = {10}}};
    return report;
  };
  const auto found = FindMaxRate(dies, LoadOptions(), kSlo, {.lowest = 100});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->failure, absl::UnavailableError("gone"));
  EXPECT_EQ(server.num_runs_, kGoodRuns + 1);
  EXPECT_EQ(found->trials.size(), static_cast<size_t>(kGoodRuns + 1));
  EXPECT_GT(found->rate, 100);
  EXPECT_EQ(found->broken_at, 0);
  EXPECT_FALSE(found->confirmed || found->client_bound);
}

// Trials are as long as it takes to show a share so small.
TEST(MaxRateTest, AStrictPromiseTakesLongerTrials) {
  FakeServerAt server(1e6);  // one call in a thousand is late
  LoadOptions load;
  load.duration = absl::Seconds(1);
  const std::vector<SloClause> strict = {
      {"p99<50ms", SloClause::Of::kAnswers, absl::Milliseconds(50), 0.01}};
  const auto found = FindMaxRate(server.runner(), load, strict, {.lowest = 10, .highest = 10});
  ASSERT_TRUE(found.ok());
  EXPECT_GE(found->trials[0].clauses[0].calls, 350);  // 1.5 x 1.645^2 x 0.99 / 0.01 = 402
}

// Runs that are alike, whatever the rate.
LoadReport TenSeconds(const LoadInterval& part) {
  LoadReport report;
  report.elapsed = absl::Seconds(10);
  report.timeline.assign(10, part);
  report.num_calls = 10 * part.num_calls;
  return report;
}

// The verdict on a single rate, against a server that always does the same.
Verdict VerdictOn(const LoadReport& report, SloClause::Of of, double allowed) {
  const std::vector<SloClause> slo = {{"promise", of, absl::Milliseconds(50), allowed}};
  const auto found =
      FindMaxRate([&](const LoadOptions&) -> absl::StatusOr<LoadReport> { return report; },
                  LoadOptions(), slo, {.lowest = 20, .highest = 20});
  EXPECT_TRUE(found.ok()) << found.status();
  return found->trials.at(0).verdict;
}

// 1 of 200 calls is fewer than 1 in 100, but does not show it: Wilson's bound is 0.024.
TEST(MaxRateTest, AShareThatIsSmallByChanceDoesNotHold) {
  LoadReport report = TenSeconds({.num_calls = 20, .num_over = {0}});
  report.timeline[4].num_over = {1};
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kAnswers, 0.01), Verdict::kUnknown);
  report = TenSeconds({.num_calls = 20'000, .num_over = {100}});
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kAnswers, 0.01), Verdict::kHolds);
}

TEST(MaxRateTest, ACallThatWasSkippedBreaksThePromise) {
  LoadReport report = TenSeconds({.num_calls = 2000, .num_over = {0}});
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kAnswers, 0.01), Verdict::kHolds);
  report.num_skipped = 1;
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kAnswers, 0.01), Verdict::kBroken);
  report.num_skipped = 0;
  report.gave_up = true;
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kAnswers, 0.01), Verdict::kBroken);
}

// A stream that failed had no first token in time.
TEST(MaxRateTest, FailuresBreakPromisesOfFirstTokens) {
  const LoadReport report =
      TenSeconds({.num_calls = 1800, .num_failed = 200, .num_over = {}, .num_first_over = {0}});
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kFirstTokens, 0.05), Verdict::kBroken);
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kErrors, 0.05), Verdict::kBroken);
  EXPECT_EQ(VerdictOn(report, SloClause::Of::kFirstTokens, 0.2), Verdict::kHolds);
}

// The rate falls by the precision each time that the longer run does not hold.
TEST(MaxRateTest, ARateThatIsNotConfirmedIsLowered) {
  LoadOptions load;
  load.duration = absl::Seconds(100);
  int num_confirmations = 0;
  const LoadRunner run = [&](const LoadOptions& tried) -> absl::StatusOr<LoadReport> {
    const bool confirms = tried.duration == 2 * load.duration;
    const bool fails = confirms && ++num_confirmations <= 2;
    return TenSeconds({.num_calls = 2000, .num_over = {fails ? 1000 : 0}});
  };
  const auto found = FindMaxRate(run, load, kSlo, {.lowest = 300, .highest = 300});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(num_confirmations, 3);
  EXPECT_TRUE(found->confirmed);
  EXPECT_NEAR(found->rate, 300 / 1.05 / 1.05, 1e-9);
  EXPECT_NEAR(found->broken_at, 300 / 1.05, 1e-9);
}

TEST(MaxRateTest, RefusesWhatCannotBeShown) {
  FakeServerAt server(10);
  std::vector<SloClause> never = kSlo;
  never[0].allowed = 0;
  EXPECT_THAT(
      std::string(FindMaxRate(server.runner(), LoadOptions(), never, {}).status().message()),
      HasSubstr("p90<50ms: a share between 0 and 1"));
  EXPECT_FALSE(FindMaxRate(server.runner(), LoadOptions(), {}, {}).ok());
  EXPECT_EQ(server.num_runs_, 0);
  const auto down =
      FindMaxRate([](const LoadOptions&) -> absl::StatusOr<LoadReport> { return LoadReport(); },
                  LoadOptions(), kSlo, {});
  EXPECT_EQ(down.status().code(), absl::StatusCode::kUnavailable);
}

std::vector<LoadInterval> Parts(std::initializer_list<std::pair<int64_t, double>> parts) {
  std::vector<LoadInterval> intervals;
  for (const auto& [calls, p50] : parts) {
    LoadInterval& part = intervals.emplace_back();
    part.num_calls = calls;
    part.p50 = absl::Milliseconds(p50);
  }
  return intervals;
}

TEST(WarmUpTest, FiveSecondsThatAreAlikeAreSteady) {
  EXPECT_THAT(WhyUnsteady(Parts({{1000, 5}, {1000, 5}, {1000, 5}})), HasSubstr("too few"));
  const auto steady =
      Parts({{100, 50}, {1000, 5}, {1050, 5}, {980, 5.2}, {1010, 5}, {990, 5}, {3, 1}});
  EXPECT_EQ(WhyUnsteady(steady), "") << "of the last five whole ones, whatever was before";
  EXPECT_THAT(WhyUnsteady(Parts({{1000, 5}, {1000, 5}, {600, 5}, {1000, 5}, {1000, 5}, {3, 1}})),
              HasSubstr("600 calls"));
  EXPECT_THAT(WhyUnsteady(Parts({{1000, 9}, {1000, 5}, {1000, 5}, {1000, 5}, {1000, 5}, {3, 1}})),
              HasSubstr("median was 9.000 ms"));
  // Chance alone does this to a few calls a second.
  EXPECT_EQ(WhyUnsteady(Parts({{10, 5}, {14, 6}, {7, 5}, {11, 4}, {9, 5}, {1, 1}})), "");
}

}  // namespace
}  // namespace beamwright::client
