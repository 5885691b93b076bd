// What load tests are written as for other programs, and read back from.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_OUTPUTS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_OUTPUTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/output.pb.h"

namespace beamwright::client {

// A line of names, then one a run.
std::string LoadCsv(const LoadTestSweep& sweep);

// The distribution of latency as HdrHistogram prints it (milliseconds), which its plotters read.
std::string HdrPercentiles(const LoadTestReport& run);

// A run's distribution into a file: as HdrPercentiles, or, where the name ends in .hlog, as an
// HdrHistogram log (version 1.3) of one interval, whole. InvalidArgument if it cannot be written.
absl::Status WriteHistogram(const std::string& path, const LoadTestReport& run);

// What --json printed: one run or several. InvalidArgument names the file and what is wrong.
absl::StatusOr<LoadTestSweep> ReadSweep(const std::string& path);

// Each run and the one of the same load in `base`: rate, p50, p99 and errors, and their change.
std::string Comparison(const LoadTestSweep& base, const LoadTestSweep& sweep);

// InvalidArgument if it cannot be written.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_OUTPUTS_H_
