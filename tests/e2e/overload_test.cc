// Far more calls than the server can do: each gets an answer or a status that says to try again,
// the server's counters agree with its clients, and afterwards it holds nothing. No times are
// measured; how fast all of that is: bench/workloads/serving.py.
#include <string>

#include "absl/strings/str_cat.h"
#include "client/load/load.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::e2e {
namespace {

using client::Arrivals;
using client::Client;
using client::LoadOptions;
using client::LoadReport;

bool SaysTryAgain(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable;
}

class OverloadTest : public ::testing::TestWithParam<absl::Duration> {};

// Once with time enough, once with so little that most calls would be late: those are refused by
// forecast, or end when their time is up.
TEST_P(OverloadTest, EveryCallGetsAnAnswerAndEveryAnswerIsCounted) {
  constexpr int kCalls = 1500;
  ServerProcess server({"--model-path", DefaultModel(), "--threads", "2", "--inference-streams",
                        "2", "--max-queue", "16", "--max-rows", "32"});
  LoadOptions options;
  options.sources.emplace_back().set_text("recurrent");
  options.sources.emplace_back().set_text("a");
  options.sources.emplace_back().set_text("antidisestablishmentarianism");
  options.warmup = absl::ZeroDuration();
  options.duration = absl::Hours(1);
  options.max_calls = kCalls;
  options.arrivals = Arrivals::kPoisson;
  options.rate = 1e5;
  options.concurrency = client::kMaxConcurrency;
  options.timeout = GetParam();
  options.request.mutable_options()->set_beam_size(8);
  auto client = *Client::Connect({.address = server.address(), .max_attempts = 1});
  const absl::StatusOr<LoadReport> report = client::RunLoad(*client, options);
  ASSERT_TRUE(report.ok()) << report.status();

  int64_t late_calls = 0;
  int64_t calls = report->num_calls;
  for (const auto& [code, count] : report->failed_calls) {
    const bool late = code == absl::StatusCode::kDeadlineExceeded;
    EXPECT_TRUE(SaysTryAgain(code) || late) << report->first_failure;
    late_calls += late ? count : 0;
    calls += count;
  }
  EXPECT_EQ(calls, kCalls);
  EXPECT_EQ(report->num_sources, report->num_calls) << "a call has one source here";
  // Of a call that is given up at its deadline the client may not learn what became of its
  // source.
  for (const auto& [code, count] : report->failed_sources) {
    const auto found = report->failed_calls.find(code);
    const int64_t of_calls = found == report->failed_calls.end() ? 0 : found->second;
    EXPECT_TRUE(count == of_calls ||
                (code == absl::StatusCode::kDeadlineExceeded && count < of_calls))
        << absl::StatusCodeToString(code);
  }
  if (GetParam() > absl::Minutes(1)) {  // a slow machine may answer nothing in less
    EXPECT_GT(report->num_sources, 0);
  }
  EXPECT_GT(report->failed_calls.size(), 0u) << "there was no overload";

  EXPECT_TRUE(BackToZero(server.metrics_port()));
  const Samples metrics = Scrape(server.metrics_port());
  // What a client gives up at its deadline the server may have answered, cancelled or never seen.
  const double answered = Sum(metrics, "beamwright_requests_total", "code=\"OK\"");
  EXPECT_GE(answered, static_cast<double>(report->num_calls));
  EXPECT_LE(answered, static_cast<double>(report->num_calls + late_calls));
  if (late_calls == 0) {
    EXPECT_EQ(Sum(metrics, "beamwright_sources_total", "code=\"OK\""),
              static_cast<double>(report->num_sources));
    for (const auto& [code, count] : report->failed_calls) {
      const std::string label = absl::StrCat("code=\"", absl::StatusCodeToString(code), "\"");
      EXPECT_EQ(Sum(metrics, "beamwright_requests_total", label), static_cast<double>(count));
      EXPECT_EQ(Sum(metrics, "beamwright_sources_total", label), static_cast<double>(count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OverloadTest,
                         ::testing::Values(absl::Minutes(2), absl::Milliseconds(30)));

}  // namespace
}  // namespace beamwright::e2e
