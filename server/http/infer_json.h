// Inference requests and answers of the Open Inference Protocol as HTTP carries them: JSON, with
// the elements of tensors in it or, by the extension "binary_tensor_data", behind it.
#ifndef BEAMWRIGHT_SERVER_HTTP_INFER_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_INFER_JSON_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::http {

struct InferBody {
  inference::ModelInferRequest request;  // elements are raw
  // Outputs whose elements go behind the JSON, or all of them, where the request names none.
  std::set<std::string> binary_outputs;
  bool all_binary = false;
};

// `json_length`: value of the header Inference-Header-Content-Length; empty: all is JSON.
// InvalidArgument naming the member that is wrong.
absl::StatusOr<InferBody> ParseInferBody(const std::string& body, const std::string& json_length);

struct InferReply {
  std::string body;
  size_t json_length = 0;  // less than the body's where elements stand behind it
};
InferReply WriteInferBody(const InferBody& asked, const inference::ModelInferResponse& response);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_INFER_JSON_H_
