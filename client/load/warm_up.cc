// Sending a load until its figures are steady (load.h).
#include <algorithm>
#include <atomic>
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/load/load.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr size_t kSteadyParts = 5;
constexpr double kSteadyWithin = 0.1;
constexpr absl::Duration kLongestWarmUp = absl::Minutes(1);

}  // namespace

std::string WhyUnsteady(const std::vector<LoadInterval>& parts) {
  if (parts.size() < kSteadyParts + 1) {  // the last one is not over
    return "there were too few seconds with calls";
  }
  const auto end = parts.end() - 1;
  const auto begin = end - kSteadyParts;
  double calls = 0, p50 = 0;
  for (auto part = begin; part != end; ++part) {
    calls += static_cast<double>(part->num_calls) / kSteadyParts;
    p50 += absl::ToDoubleMilliseconds(part->p50) / kSteadyParts;
  }
  // What chance does to this number of arrivals, and about twice as much to the median of their
  // waits.
  const double by_chance = 3 / std::sqrt(std::max(1.0, calls));
  for (auto part = begin; part != end; ++part) {
    const double here = absl::ToDoubleMilliseconds(part->p50);
    if (std::abs(static_cast<double>(part->num_calls) - calls) >
        std::max(kSteadyWithin, by_chance) * calls) {
      return absl::StrFormat("in one second %d calls were answered, in five %.0f on average",
                             part->num_calls, calls);
    }
    if (std::abs(here - p50) > std::max(kSteadyWithin, 2 * by_chance) * p50) {
      return absl::StrFormat("in one second the median was %.3f ms, in five %.3f ms on average",
                             here, p50);
    }
  }
  return "";
}

absl::StatusOr<std::string> WarmUpUntilSteady(LoadTarget& target, const LoadOptions& options) {
  std::atomic<bool> stop{false};
  LoadOptions load = options;
  load.warmup = absl::ZeroDuration();
  load.duration = kLongestWarmUp;
  load.max_calls = 0;
  load.stop = &stop;
  std::string why = "there were too few seconds with calls";
  load.on_progress = [&](const LoadReport& report, absl::Duration left) {
    why = WhyUnsteady(report.timeline);
    if (options.on_progress) {
      options.on_progress(LoadReport(), left);
    }
    if (why.empty() || (options.stop != nullptr && options.stop->load())) {
      stop = true;
    }
  };
  BW_RETURN_IF_ERROR(RunLoad(target, load).status());
  return why;
}

}  // namespace beamwright::client
