// Far more calls than the server can do: each gets an answer or a status that says to try again,
// the server's counters tell what its clients saw, and afterwards it holds nothing. No times are
// measured; how fast all of that is: bench/workloads/serving.py.
#include <httplib.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/load/load.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using client::Arrivals;
using client::Client;
using client::LoadOptions;
using client::LoadReport;

// Values by name and labels, as /metrics writes them.
std::map<std::string, double> Metrics(ServerProcess& server) {
  httplib::Client ops("127.0.0.1", server.metrics_port());
  const auto result = ops.Get("/metrics");
  std::map<std::string, double> values;
  if (!result) {
    ADD_FAILURE() << httplib::to_string(result.error());
    return values;
  }
  const std::vector<std::string> lines = absl::StrSplit(result->body, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const size_t space = line.rfind(' ');
    if (line[0] != '#' && space != std::string::npos) {
      values[line.substr(0, space)] = std::strtod(line.c_str() + space, nullptr);
    }
  }
  return values;
}

// The sum over all series of a family that carry `label`.
double Sum(const std::map<std::string, double>& metrics, const std::string& family,
           const std::string& label) {
  double sum = 0;
  for (const auto& [series, value] : metrics) {
    if (series.rfind(family + "{", 0) == 0 && series.find(label) != std::string::npos) {
      sum += value;
    }
  }
  return sum;
}

// Nothing waits and nothing runs, or will soon: calls that their clients gave up end at the next
// step.
bool HoldsNothing(ServerProcess& server) {
  constexpr int kTries = 10'000;
  for (int i = 0; i < kTries; ++i) {
    const std::map<std::string, double> metrics = Metrics(server);
    bool nothing = true;
    for (const char* gauge : {"beamwright_requests_running", "beamwright_requests_waiting",
                              "beamwright_beam_rows_active"}) {
      nothing = nothing && metrics.count(gauge) == 1 && metrics.at(gauge) == 0;
    }
    if (nothing) {
      return true;
    }
  }
  return false;
}

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
    EXPECT_EQ(code, absl::StatusCode::kDeadlineExceeded) << report->first_failure;
    late_calls += count;
    calls += count;
  }
  EXPECT_EQ(calls, kCalls);
  int64_t sources = report->num_sources;
  for (const auto& [code, count] : report->failed_sources) {
    EXPECT_TRUE(SaysTryAgain(code) || code == absl::StatusCode::kDeadlineExceeded)
        << report->first_failure;
    sources += count;
  }
  EXPECT_EQ(sources, report->num_calls);
  if (GetParam() > absl::Minutes(1)) {  // a slow machine may answer nothing in less
    EXPECT_GT(report->num_sources, 0);
  }
  EXPECT_GT(report->failed_sources.size() + report->failed_calls.size(), 0u)
      << "there was no overload";

  EXPECT_TRUE(HoldsNothing(server));
  const std::map<std::string, double> metrics = Metrics(server);
  // What a client gives up at its deadline the server may have answered, cancelled or never seen.
  const double answered = Sum(metrics, "beamwright_requests_total", "code=\"OK\"");
  EXPECT_GE(answered, static_cast<double>(report->num_calls));
  EXPECT_LE(answered, static_cast<double>(report->num_calls + late_calls));
  if (late_calls == 0) {
    EXPECT_EQ(Sum(metrics, "beamwright_sources_total", "code=\"OK\""),
              static_cast<double>(report->num_sources));
    for (const auto& [code, count] : report->failed_sources) {
      const std::string name = code == absl::StatusCode::kResourceExhausted ? "RESOURCE_EXHAUSTED"
                               : code == absl::StatusCode::kUnavailable     ? "UNAVAILABLE"
                                                                            : "DEADLINE_EXCEEDED";
      EXPECT_EQ(Sum(metrics, "beamwright_sources_total", absl::StrCat("code=\"", name, "\"")),
                static_cast<double>(count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OverloadTest,
                         ::testing::Values(absl::Minutes(2), absl::Milliseconds(30)));

}  // namespace
}  // namespace beamwright::e2e
