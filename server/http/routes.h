// What Rest's routes call: completions, JSON of the Open Inference Protocol, JSON of calls that
// manage a server, and the OpenAPI document.
#ifndef BEAMWRIGHT_SERVER_HTTP_ROUTES_H_
#define BEAMWRIGHT_SERVER_HTTP_ROUTES_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"
#include "inference/grpc_service.pb.h"
#include "server/http/listener.h"
#include "server/http/replies.h"
#include "server/serving/core.h"
#include "server/serving/metrics.h"

namespace beamwright::http {

// Requests to /v1/completions: JSON objects as OpenAI's clients send them. docs/client.md has the
// fields.

struct CompletionBody {
  v1::StreamDecodeRequest request;  // its target prefix is the prompt
  int most_choices = 0;             // the best of all samples; 0: all are answered
  int logprobs = -1;                // most probable tokens of each place; -1: no log-probabilities
  bool echo = false;
  bool streams = false;
  bool counts_streamed = false;  // the last event of a stream has the numbers of tokens
};

// InvalidArgument naming every member that is missing, wrong, or not served. ReadObject's errors
// where the body is no JSON object.
absl::StatusOr<CompletionBody> ReadCompletionBody(const std::string& body);

// POST /v1/completions, as OpenAI's clients send it: a prompt goes on. docs/client.md has the
// fields.

// A Decode call, or with `stream` a StreamDecode call whose events are those of OpenAI. No thread
// waits for it.
HttpReply Complete(const HttpRequest& request, serving::Core& core, const Asked& asked);

// Inference requests and answers of the Open Inference Protocol as HTTP carries them: JSON, with
// the elements of tensors in it or, by the extension "binary_tensor_data", behind it.

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

// JSON of calls that manage a server: the model repository, log settings, and what the server
// counts and measures.

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

// The description of /v1 as an OpenAPI 3.1 document, made of the protos when it is asked for first:
// messages are its schemas, the rules of fields (rule.proto) their ranges, defaults and texts.

// The same text each time.
const std::string& OpenApi();

HttpReply OpenApiReply();

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_ROUTES_H_
