#include "client/cli/load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/terminal.h"

namespace beamwright::client {

std::string LoadProgressText(const LoadReport& report, absl::Duration left) {
  const auto seconds = static_cast<int64_t>(std::ceil(absl::ToDoubleSeconds(left)));
  std::string text = left > absl::ZeroDuration() ? absl::StrCat(WithCommas(seconds), " s left")
                                                 : "waiting for the last answers";
  if (report.timeline.empty()) {
    return text + "   warming up";
  }
  const size_t parts = report.timeline.size();
  const LoadInterval& part = report.timeline[parts - (parts > 1 ? 2 : 1)];
  const double rate = parts > 1
                          ? static_cast<double>(part.num_calls) / absl::ToDoubleSeconds(part.length)
                          : static_cast<double>(report.num_calls) /
                                std::max(1e-3, absl::ToDoubleSeconds(report.elapsed));
  absl::StrAppendFormat(&text, "   %s calls/s   p50 %.1f ms   p99 %.1f ms",
                        WithCommas(static_cast<int64_t>(rate)),
                        absl::ToDoubleMilliseconds(part.p50), absl::ToDoubleMilliseconds(part.p99));
  return absl::StrCat(
      text, "   ", WithCommas(NumFailed(report)), " failed",
      report.num_skipped > 0 ? absl::StrCat(", ", WithCommas(report.num_skipped), " skipped") : "");
}

std::function<void(const LoadReport&, absl::Duration)> LoadProgressLine() {
  if (isatty(STDERR_FILENO) != 1) {
    return nullptr;
  }
  return [](const LoadReport& report, absl::Duration left) {
    std::cerr << "\r\x1b[K" << LoadProgressText(report, left) << std::flush;
  };
}

void EndLoadProgress() {
  if (isatty(STDERR_FILENO) == 1) {
    std::cerr << "\r\x1b[K" << std::flush;
  }
}

}  // namespace beamwright::client
