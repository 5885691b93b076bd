// --fail-if: what must not come out of a load test, such as "p99>50ms,errors>1%"; and --slo: what
// must, such as "p99<50ms,errors<0.1%".
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_CONDITIONS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_CONDITIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/output.pb.h"
#include "client/load/max_rate.h"

namespace beamwright::client {

struct LoadCondition {
  std::string text;  // as it was given
  std::string name;  // of the figure
  double (*value)(const LoadTestReport&) = nullptr;
  bool below = false;  // fails below the limit; otherwise above it
  bool equal = false;  // fails at the limit, too
  double limit = 0;    // milliseconds, a share or calls a second
};

// InvalidArgument names the piece that is not a condition and what is allowed.
absl::StatusOr<std::vector<LoadCondition>> ParseConditions(absl::string_view text);

// A promise that FindMaxRate can show: percentiles and `first` below a time, errors below a share
// above 0.
absl::StatusOr<std::vector<SloClause>> ParseSlo(absl::string_view text);

// InvalidArgument for a condition on first tokens without --stream: it would hold
// whatever the server does.
absl::Status CheckFirstTokens(const std::vector<LoadCondition>& conditions,
                              const std::vector<SloClause>& slo, bool stream);

// Of the first condition that holds, what it is and what was measured; empty: none does. A run
// without an answer fails every condition on latency.
std::string FailedCondition(const std::vector<LoadCondition>& conditions,
                            const LoadTestReport& report);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_CONDITIONS_H_
