// How `beamwright load-test --find-max-rate` prints its result.
#ifndef BEAMWRIGHT_CLIENT_CLI_MAX_RATE_REPORT_H_
#define BEAMWRIGHT_CLIENT_CLI_MAX_RATE_REPORT_H_

#include <string>
#include <vector>

#include "client/cli/output.pb.h"
#include "client/load/max_rate.h"

namespace beamwright::client {

// "  412.0 calls/s  holds    p99<50ms: 0.41 % (0.22 to 0.71) of 1 %"
std::string TrialLine(const RateTrial& trial, const std::vector<SloClause>& slo);

// What was found, how sure that is, and what bounds it.
std::string MaxRateText(const MaxRate& found, const std::string& slo);

// The object of --json. `load` and `connections` as ReportMessage has them.
MaxRateReport MaxRateMessage(const MaxRate& found, const std::vector<SloClause>& slo,
                             const std::string& slo_text, const LoadOptions& load, int connections);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_MAX_RATE_REPORT_H_
