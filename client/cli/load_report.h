// How `beamwright load-test` prints what it measured.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_

#include <cstdint>
#include <string>

#include "client/cli/output.pb.h"
#include "client/load/load.h"

namespace beamwright::client {

// "p50 1.000 ms, p90 ..., p99 ..., max ...".
std::string PercentilesText(const Percentiles& times);
void SetPercentiles(const Percentiles& times, LatencyMs& message);

// A line that marks the percentiles beyond which fewer than 100 of `num_calls` calls lie; empty if
// there are none: a p99.99 of 14 calls is their maximum.
std::string UncertainText(int64_t num_calls);

// The lines for people. `connections` is the client's.
std::string ReportText(const LoadOptions& options, int connections, const LoadReport& report);

// What a run's server is, and what its metrics gained: lines for people; empty without any.
std::string ServerText(const LoadTestReport& run);

// Percentiles, curve and the whole of a histogram into their fields.
void SetLatency(const Histogram& latency, LoadTestReport& run);

// The object of --json.
LoadTestReport ReportMessage(const LoadOptions& options, int connections, const LoadReport& report);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_REPORT_H_
