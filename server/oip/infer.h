// Inference requests of the Open Inference Protocol as decode requests, and their answers as
// tensors. docs/client.md describes the tensors.
#ifndef BEAMWRIGHT_SERVER_OIP_INFER_H_
#define BEAMWRIGHT_SERVER_OIP_INFER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "google/protobuf/map.h"
#include "inference/grpc_service.pb.h"
#include "server/serving/decode.h"

namespace beamwright::oip {

// An output tensor: [sources, 1], [sources, n_best], [sources, n_best, tokens] or [sources, n_best,
// tokens, source positions].
struct OutputTensor {
  absl::string_view name;
  absl::string_view datatype;
  int rank;
  absl::string_view text;  // for people
  // Answered only where a request names it, and not listed: tools that ask for whatever is listed
  // would pay for it.
  bool if_named = false;
  // What the search must return of the attention for it.
  v1::Attention attention = v1::ATTENTION_NONE;
  bool words = false;  // whether it needs them
};
// All outputs; those without if_named in the order in which they are answered where a request names
// none.
absl::Span<const OutputTensor> OutputTensors();

// What the answer to a request looks like.
struct AnswerForm {
  std::string id;
  int n_best = 1;
  std::vector<int> outputs;  // indices into OutputTensors()
};

struct InferJob {
  serving::Job job;
  AnswerForm form;
  absl::Duration timeout = absl::InfiniteDuration();
  int priority = 0;  // 0: the caller's
};

// NotFound for an unknown model or version; InvalidArgument naming the tensor, parameter or output
// that is wrong.
absl::StatusOr<InferJob> ReadInferRequest(const serving::ModelRegistry& models,
                                          const inference::ModelInferRequest& request);

// The answer to a call whose sources were all decoded. All elements are raw. ResourceExhausted if
// padding would make the answer larger than kMaxAnswerBytes.
absl::StatusOr<inference::ModelInferResponse> WriteInferResponse(
    const AnswerForm& form, const v1::DecodeResponse& response);

inline constexpr int64_t kMaxAnswerBytes = int64_t{256} << 20;

// Parameters of an inference request: decode options by the names of their fields, and the few
// names that the protocol reserves.

struct Parameters {
  v1::DecodeOptions options;
  absl::Duration timeout = absl::InfiniteDuration();
  int priority = 0;  // 0: none is asked for; else as engine::CallOptions has it
};

// Every field of DecodeOptions is a parameter of its name: numbers and bools as such, enums by
// their short name ("pow"), repeated fields and messages as strings in protobuf's JSON form; a
// number may also be a string. `timeout` is in microseconds; `priority` is 1 (first) to 3,
// more counts as 3, 0 as none; sequence_* (sequences.h) and what clients set for themselves is
// passed over.
// InvalidArgument naming the parameter: of the wrong type, or unknown. Ranges are checked with the
// options.
absl::StatusOr<Parameters> ReadParameters(
    const google::protobuf::Map<std::string, inference::InferParameter>& parameters);

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_INFER_H_
