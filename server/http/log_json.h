// Log settings of the Open Inference Protocol as JSON: {"log_info": true, "log_verbose_level": 0}.
#ifndef BEAMWRIGHT_SERVER_HTTP_LOG_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_LOG_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::http {

// InvalidArgument for what is not an object of bools, whole numbers and strings.
absl::StatusOr<inference::LogSettingsRequest> ParseLogBody(const std::string& body);

std::string WriteLogBody(const inference::LogSettingsResponse& settings);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_LOG_JSON_H_
