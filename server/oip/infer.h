// Inference requests of the Open Inference Protocol as decode requests, and their answers as
// tensors. docs/client.md describes the tensors.
#ifndef BEAMWRIGHT_SERVER_OIP_INFER_H_
#define BEAMWRIGHT_SERVER_OIP_INFER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
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

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_INFER_H_
