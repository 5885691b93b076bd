// What programs and people read of runs: the marks that make a run count or not, and the change
// since another one.
#include "client/cli/load_outputs.h"

#include "client/cli/load_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LoadTestSweep OneRun(double rate, double p50, double p99, double errors) {
  LoadTestSweep sweep;
  LoadTestReport& run = *sweep.add_runs();
  run.set_concurrency(4);
  run.set_calls_per_second(rate);
  run.mutable_latency_ms()->set_p50(p50);
  run.mutable_latency_ms()->set_p99(p99);
  run.set_error_share(errors);
  return sweep;
}

TEST(LoadComparisonTest, TheBaseIsBeforeAndChangesHaveTheirSign) {
  const LoadTestSweep base = OneRun(200, 10, 40, 0), now = OneRun(150, 12.5, 30, 0.02);
  EXPECT_THAT(Comparison(base, now),
              HasSubstr("4 in flight: calls/s 200 -> 150 (-25.0 %), p50 ms 10 -> 12.5 (+25.0 %), "
                        "p99 ms 40 -> 30 (-25.0 %), errors 0.00 % -> 2.00 %\n"));
}

TEST(LoadComparisonTest, NothingIsDividedByZero) {
  EXPECT_THAT(Comparison(OneRun(0, 0, 0, 1), OneRun(150, 12.5, 30, 0)),
              HasSubstr("calls/s 0 -> 150, p50 ms 0 -> 12.5, p99 ms 0 -> 30, "));
}

TEST(LoadComparisonTest, ARunThatDoesNotCountIsMarkedOnEitherSide) {
  const LoadTestSweep good = OneRun(1, 1, 1, 0);
  LoadTestSweep bad = good;
  bad.mutable_runs(0)->set_invalid("why");
  EXPECT_THAT(Comparison(good, good), Not(HasSubstr("INVALID")));
  EXPECT_THAT(Comparison(good, bad), HasSubstr(", INVALID\n"));
  EXPECT_THAT(Comparison(bad, good), HasSubstr(", INVALID\n"));
}

// A client that cannot keep up: calls were due and never sent.
TEST(LoadInvalidTest, JsonAndCsvSayWhyARunDoesNotCount) {
  LoadReport report;
  report.num_calls = 1000;
  LoadTestSweep sweep;
  *sweep.add_runs() = ReportMessage(LoadOptions(), 4, report);
  EXPECT_EQ(sweep.runs(0).invalid(), "");
  EXPECT_THAT(LoadCsv(sweep), HasSubstr(",yes\n"));
  report.num_skipped = 3;
  *sweep.mutable_runs(0) = ReportMessage(LoadOptions(), 4, report);
  EXPECT_THAT(sweep.runs(0).invalid(), HasSubstr("3 calls that were due were never sent"));
  EXPECT_THAT(LoadCsv(sweep), AllOf(HasSubstr(",no\n"), Not(HasSubstr(",yes\n"))));
}

}  // namespace
}  // namespace beamwright::client
