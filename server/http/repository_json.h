// Repository calls of the Open Inference Protocol as HTTP carries them. An empty body asks for
// nothing in particular.
#ifndef BEAMWRIGHT_SERVER_HTTP_REPOSITORY_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_REPOSITORY_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::http {

// {"ready": true}. InvalidArgument for what is no such object.
absl::StatusOr<inference::RepositoryIndexRequest> ParseIndexBody(const std::string& body);

using ControlParameters = google::protobuf::Map<std::string, inference::ModelRepositoryParameter>;

// {"parameters": {...}} of a load or unload. InvalidArgument for what is not an object, and naming
// an unknown parameter.
absl::StatusOr<ControlParameters> ParseControlBody(const std::string& body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_REPOSITORY_JSON_H_
