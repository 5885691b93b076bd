// How `beamwright load-test` prints what it measured, the rate that --find-max-rate found, and its
// progress.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/output.pb.h"
#include "client/load/load.h"
#include "client/load/max_rate.h"

namespace beamwright::client {

// How `beamwright load-test` prints what it measured.

// "p50 1.000 ms, p90 ..., p99 ..., max ...".
std::string PercentilesText(const Percentiles& times);
void SetPercentiles(const Percentiles& times, LatencyMs& message);

// A line that marks the percentiles beyond which fewer than 100 of `num_calls` calls lie; empty if
// every percentile is certain: a p99.99 of 14 calls is their maximum.
std::string UncertainText(int64_t num_calls);

// The lines for people. `connections` is the client's.
std::string ReportText(const LoadOptions& options, int connections, const LoadReport& report);

// What a run's server is, and what its metrics gained: lines for people; empty without any.
std::string ServerText(const LoadTestReport& run);

// Percentiles, curve and the whole of a histogram into their fields.
void SetLatency(const Histogram& latency, LoadTestReport& run);

// The object of --json.
LoadTestReport ReportMessage(const LoadOptions& options, int connections, const LoadReport& report);

// How `beamwright load-test --find-max-rate` prints its result.

// "  412.0 calls/s  holds    p99<50ms: 0.41 % (0.22 to 0.71) of 1 %"
std::string TrialLine(const RateTrial& trial, const std::vector<SloClause>& slo);

// What was found, how sure that is, and what bounds it.
std::string MaxRateText(const MaxRate& found, const std::string& slo);

// The object of --json. `load` and `connections` as ReportMessage has them.
MaxRateReport MaxRateMessage(const MaxRate& found, const std::vector<SloClause>& slo,
                             const std::string& slo_text, const LoadOptions& load, int connections);

// One line on standard error that shows the progress of a load test. It shows nothing where
// standard error is not a terminal, and is gone when the test ends.

// "12 s left   1,234 calls/s   p50 1.2 ms   p99 3.4 ms   5 failed"; rate and percentiles are those
// of the timeline's last whole part, failures of the whole run.
std::string LoadProgressText(const LoadReport& report, absl::Duration left);

// For LoadOptions::on_progress. Empty where nothing is to be shown.
std::function<void(const LoadReport&, absl::Duration)> LoadProgressLine();

// Clears the line.
void EndLoadProgress();

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_
