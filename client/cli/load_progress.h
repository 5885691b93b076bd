// One line on standard error that shows the progress of a load test. It shows nothing where
// standard error is not a terminal, and is gone when the test ends.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_PROGRESS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_PROGRESS_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "client/load/load.h"

namespace beamwright::client {

// "12 s left   1,234 calls/s   p50 1.2 ms   p99 3.4 ms   5 failed"; rate and percentiles are those
// of the timeline's last whole part, failures of the whole run.
std::string LoadProgressText(const LoadReport& report, absl::Duration left);

// For LoadOptions::on_progress. Empty where nothing is to be shown.
std::function<void(const LoadReport&, absl::Duration)> LoadProgressLine();

// Clears the line.
void EndLoadProgress();

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_PROGRESS_H_
