// The open-loop load generator against a real server: its tally is the server's, and waiting
// counts.
#include "client/load/load.h"
#include "tests/e2e/e2e_test.h"

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
  EXPECT_GE(report.latency.max, report.elapsed - absl::Milliseconds(100));
  // The same calls one by one take longer in all, but wait for nobody.
  LoadOptions one_by_one = Words(20);
  one_by_one.concurrency = 1;
  EXPECT_LT(Load(server, one_by_one).latency.p50, report.latency.p50);
}

// The server refuses sources, not calls: each is answered, decoded or refused, and timed as what it
// is.
TEST(OpenLoopTest, RefusalsAreCountedApart) {
  constexpr int kCalls = 200;
  ServerProcess server(
      {"--model-path", DefaultModel(), "--threads", "1", "--max-queue", "4", "--max-rows", "32"});
  LoadOptions options = Words(kCalls);
  options.rate = 1e5;
  const LoadReport report = Load(server, options);
  EXPECT_TRUE(report.failed_calls.empty()) << report.first_failure;
  EXPECT_EQ(report.num_calls, kCalls);
  ASSERT_EQ(report.failed_sources.size(), 1u);
  const auto& [code, refused] = *report.failed_sources.begin();
  EXPECT_EQ(code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(report.num_sources + refused, kCalls);
  EXPECT_EQ(report.num_good, report.num_sources);
  EXPECT_GT(report.num_sources, 0);
  EXPECT_GT(report.refused.max, absl::ZeroDuration());
}

}  // namespace
}  // namespace beamwright::e2e
