// Decode calls as the Open Inference Protocol has them, for servers that speak it: Triton, KServe,
// and ours. Requests are messages of its gRPC service; over HTTP they go as the JSON made of those.
#ifndef BEAMWRIGHT_CLIENT_LOAD_INFER_MESSAGE_H_
#define BEAMWRIGHT_CLIENT_LOAD_INFER_MESSAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "google/protobuf/struct.pb.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::client {

// The inputs source_text, source_ids (padded with -1) or source_features, and each option that is
// set as a parameter (docs/client.md). InvalidArgument: sources of several kinds, features of
// several shapes or of a type that has no list in the protocol, decoder inputs.
absl::StatusOr<inference::ModelInferRequest> InferRequestOf(const v1::DecodeRequest& request);

// A request in the JSON form of the protocol: inputs with name, shape, datatype and flat or nested
// `data`; parameters and outputs. InvalidArgument names the member at fault.
absl::StatusOr<inference::ModelInferRequest> InferRequestOf(const google::protobuf::Struct& json);

// As the body of POST /v2/models/NAME/infer.
std::string InferJson(const inference::ModelInferRequest& request);

// The best hypothesis of each source, where the answer has the outputs of this server; of any other
// answer, as many results without a hypothesis as its first output has rows (1 without a shape).
v1::DecodeResponse DecodeResponseOf(const inference::ModelInferResponse& response);
// The same out of the body of an answer over HTTP. Internal: it is not JSON.
absl::StatusOr<v1::DecodeResponse> DecodeResponseOf(absl::string_view json);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_INFER_MESSAGE_H_
