// What a server reports besides its answers: its name and version, and its metrics. They
// are printed with the figures of a load test, so that a year later it is known what was measured.
#ifndef BEAMWRIGHT_CLIENT_LOAD_SERVER_FACTS_H_
#define BEAMWRIGHT_CLIENT_LOAD_SERVER_FACTS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/load.h"

namespace beamwright::client {

struct ServerName {
  std::string name, version;
};

// By ServerMetadata of the Open Inference Protocol, over gRPC or HTTP as `protocol` is.
absl::StatusOr<ServerName> AskServerName(Protocol protocol, const ClientOptions& options,
                                         absl::Duration timeout);

// Samples of Prometheus' text format by name and labels.
struct Metrics {
  std::map<std::string, double> counters;  // those of histograms and summaries are counters, too
  std::map<std::string, double> gauges;
};

// InvalidArgument names the line that is not of the format.
absl::StatusOr<Metrics> ParseMetrics(absl::string_view text);

// GET of "http://host:port/path" or "host:port"; without a path, /metrics.
absl::StatusOr<Metrics> ScrapeMetrics(const std::string& url, absl::Duration timeout);

// What counters gained, those that did alone, and gauges as they were at last. Buckets of
// histograms are left out.
std::map<std::string, double> MetricsBetween(const Metrics& before, const Metrics& after);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_SERVER_FACTS_H_
