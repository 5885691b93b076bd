// One report out of several.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_MERGE_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_MERGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/output.pb.h"

namespace beamwright::client {

// Counts and rates added up; latency out of the histograms together, the timeline second by second
// without percentiles, which do not add up. `names` are the runs' for errors. InvalidArgument: a
// run without a histogram, or with one of other buckets.
absl::StatusOr<LoadTestReport> MergeRuns(const std::vector<LoadTestReport>& runs,
                                         const std::vector<std::string>& names);

// The lines for people.
std::string MergedText(const LoadTestReport& merged);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_MERGE_H_
