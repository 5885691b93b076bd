// JSON of calls that manage a server: the model repository, log settings, and what the server
// counts and measures.
#ifndef BEAMWRIGHT_SERVER_HTTP_MANAGEMENT_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_MANAGEMENT_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"
#include "server/http/listener.h"
#include "server/serving/metrics.h"

namespace beamwright::http {

// Repository calls of the Open Inference Protocol as HTTP carries them. An empty body asks for
// nothing in particular.

// {"ready": true}. InvalidArgument for what is no such object.
absl::StatusOr<inference::RepositoryIndexRequest> ParseIndexBody(const std::string& body);

using ControlParameters = google::protobuf::Map<std::string, inference::ModelRepositoryParameter>;

// {"parameters": {...}} of a load or unload. InvalidArgument for what is not an object, and naming
// an unknown parameter.
absl::StatusOr<ControlParameters> ParseControlBody(const std::string& body);

// Log settings of the Open Inference Protocol as JSON: {"log_info": true, "log_verbose_level": 0}.

// InvalidArgument for what is not an object of bools, whole numbers and strings.
absl::StatusOr<inference::LogSettingsRequest> ParseLogBody(const std::string& body);

std::string WriteLogBody(const inference::LogSettingsResponse& settings);

// What the server counts and measures, as JSON: what /metrics says, for those who read no
// Prometheus text. docs/operations.md lists the metrics.

// {"metrics": {NAME: [{"labels": {...}, "value": 1}, ...], ...}}; a histogram has "count", "sum"
// and "buckets" ([upper bound, cumulative count], without the one that has no bound) in place of
// "value".
HttpReply StatusReply(const serving::Metrics& metrics);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_MANAGEMENT_JSON_H_
