// When a run says more about the machine that sent the calls than about the server.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/load.h"

namespace beamwright::client {
namespace {

// Calls that are a little late change no figure: latency counts from when they were due.
constexpr absl::Duration kLate = absl::Milliseconds(1);
constexpr double kLateShare = 0.1;      // of the 99th percentile of latency
constexpr double kSkippedShare = 1e-3;  // of the calls that were due
constexpr double kCpuShare = 0.8;       // of all CPUs

}  // namespace

std::string ClientBottleneck(const LoadReport& report, int num_cpus) {
  const int64_t sent = report.num_calls + NumFailed(report);
  const auto skipped = static_cast<double>(report.num_skipped);
  if (skipped > kSkippedShare * (skipped + static_cast<double>(sent))) {
    return absl::StrCat(
        report.num_skipped,
        " calls that were due were never sent; raise --concurrency or lower --rate");
  }
  if (report.lag.p99 > kLate && report.lag.p99 > kLateShare * report.latency.p99) {
    return absl::StrFormat(
        "a hundredth of the calls was sent %.1f ms late or more; this machine cannot send at that "
        "rate",
        absl::ToDoubleMilliseconds(report.lag.p99));
  }
  const double cpus = ClientCpus(report);
  return cpus > kCpuShare * num_cpus
             ? absl::StrFormat("the client itself used %.1f of this machine's %d CPUs", cpus,
                               num_cpus)
             : "";
}

}  // namespace beamwright::client
