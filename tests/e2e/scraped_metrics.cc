#include "tests/e2e/scraped_metrics.h"

#include <httplib.h>

#include <cstdlib>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace beamwright::e2e {
namespace {

// What is not zero, or not there; empty if nothing.
std::string HeldGauges(const Samples& samples) {
  std::string held;
  for (const char* gauge :
       {"beamwright_requests_running", "beamwright_requests_waiting", "beamwright_beam_rows_active",
        "beamwright_state_bytes", "beamwright_held_bytes", "beamwright_queue_oldest_age_seconds"}) {
    bool is_there = false;
    for (const auto& [name, value] : samples) {
      is_there = is_there || name == gauge || absl::StartsWith(name, absl::StrCat(gauge, "{"));
    }
    if (!is_there) {
      absl::StrAppend(&held, gauge, " is missing ");
    } else if (Sum(samples, gauge) != 0) {
      absl::StrAppend(&held, gauge, " is ", Sum(samples, gauge), " ");
    }
  }
  return held;
}

}  // namespace

Samples Scrape(int metrics_port) {
  httplib::Client client("127.0.0.1", metrics_port);
  client.set_read_timeout(std::chrono::minutes(2));
  const auto reply = client.Get("/metrics");
  Samples samples;
  if (!reply || reply->status != 200) {
    ADD_FAILURE() << "/metrics does not answer";
    return samples;
  }
  std::istringstream lines(reply->body);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.rfind(' ');
    if (!line.empty() && line[0] != '#' && end != std::string::npos) {
      samples[line.substr(0, end)] = std::atof(line.c_str() + end + 1);
    }
  }
  return samples;
}

double Sum(const Samples& samples, const std::string& metric, const std::string& label) {
  double sum = 0;
  for (const auto& [name, value] : samples) {
    const bool is_it = name == metric || absl::StartsWith(name, metric + "{");
    sum += is_it && absl::StrContains(name, label) ? value : 0;
  }
  return sum;
}

::testing::AssertionResult BackToZero(int metrics_port) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  for (;;) {
    const std::string held = HeldGauges(Scrape(metrics_port));
    if (held.empty()) {
      return ::testing::AssertionSuccess();
    }
    if (absl::Now() > end) {
      return ::testing::AssertionFailure() << held;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

}  // namespace beamwright::e2e
