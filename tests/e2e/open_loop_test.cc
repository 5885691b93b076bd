// The open-loop load generator against a real server: its tally is the server's, and waiting
// counts.
#include "client/load/load.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::e2e {
namespace {

using client::Client;
using client::LoadOptions;
using client::LoadReport;

LoadOptions Words(int64_t calls) {
  LoadOptions options;
  options.sources.emplace_back().set_text("antidisestablishmentarianism");
  options.warmup = absl::ZeroDuration();
  options.duration = absl::Hours(1);
  options.timeout = absl::Minutes(2);
  options.max_calls = calls;
  options.arrivals = client::Arrivals::kEven;
  options.concurrency = client::kMaxConcurrency;
  options.request.mutable_options()->set_beam_size(16);
  return options;
}

LoadReport Load(ServerProcess& server, const LoadOptions& options) {
  auto client = *Client::Connect({.address = server.address(), .max_attempts = 1});
  auto report = client::RunLoad(*client, options);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

// All calls are due within a tenth of a second, which is far less than the server needs. Whichever
// is answered last was due in that time, so it waited for the rest of the run; a latency that
// counts from sending at a steady pace, or from a free place, would not show it.
TEST(OpenLoopTest, WaitingInAServersQueueIsLatency) {
  constexpr int kCalls = 400;
  ServerProcess server({"--model-path", DefaultModel(), "--threads", "1"});
  LoadOptions options = Words(kCalls);
  options.rate = 10 * kCalls;
  const LoadReport report = Load(server, options);
  EXPECT_EQ(report.num_calls, kCalls) << report.first_failure;
  EXPECT_EQ(report.num_sources, kCalls);
  EXPECT_GT(report.num_tokens, report.num_calls);
  // A microsecond, to which latencies are rounded, is not a difference.
  EXPECT_GE(report.latency.max, report.elapsed - absl::Milliseconds(100) - absl::Microseconds(1));
  // Half of the calls took the median or longer: of calls that wait for one another that is more
  // than the whole run together, and of calls one by one never. Both hold however busy the machine
  // is.
  EXPECT_GT(kCalls / 2 * report.latency.p50, report.elapsed);
  LoadOptions one_by_one = Words(20);
  one_by_one.concurrency = 1;
  const LoadReport alone = Load(server, one_by_one);
  EXPECT_LE(10 * alone.latency.p50, alone.elapsed * 1.001);  // to which latencies are rounded
}

// Each call is answered or refused, and timed as what it is; the server's metrics say the same.
TEST(OpenLoopTest, RefusalsAreCountedApart) {
  constexpr int kCalls = 200;
  ServerProcess server(
      {"--model-path", DefaultModel(), "--threads", "1", "--max-queue", "4", "--max-rows", "32"});
  LoadOptions options = Words(kCalls);
  options.rate = 1e5;
  const LoadReport report = Load(server, options);
  ASSERT_EQ(report.failed_calls.size(), 1u) << report.first_failure;
  const auto& [code, refused] = *report.failed_calls.begin();
  EXPECT_EQ(code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(report.num_calls + refused, kCalls);
  EXPECT_EQ(report.failed_sources, report.failed_calls) << "calls of one source each";
  EXPECT_EQ(report.num_sources, report.num_calls);
  EXPECT_EQ(report.num_good, report.num_sources);
  EXPECT_GT(report.num_sources, 0);
  EXPECT_GT(report.refused.max, absl::ZeroDuration());
  const Samples metrics = Scrape(server.metrics_port());
  for (const char* metric : {"beamwright_requests_total", "beamwright_sources_total"}) {
    EXPECT_EQ(Sum(metrics, metric, "code=\"OK\""), static_cast<double>(report.num_calls));
    EXPECT_EQ(Sum(metrics, metric, "code=\"RESOURCE_EXHAUSTED\""), static_cast<double>(refused));
  }
}

}  // namespace
}  // namespace beamwright::e2e
