// Method: what a call is called in metrics, in the access log and in spans; and why a call was
// refused, in a word.
#ifndef BEAMWRIGHT_SERVER_SERVING_METHOD_H_
#define BEAMWRIGHT_SERVER_SERVING_METHOD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::serving {

// The calls that decode, by protocol: gRPC's, HTTP's, WebSocket's. "Other" stands for all calls
// that do not decode, and for calls rejected before their method was known; only refused ones
// are counted.
enum class Method {
  kDecode,
  kStreamDecode,
  kScore,
  kAlign,
  kModelInfer,
  kModelStreamInfer,
  kRecognize,
  kTranslate,
  kStreamTranslate,
  kGrpcOther,
  kHttpDecode,
  kHttpStreamDecode,
  kHttpScore,
  kHttpAlign,
  kHttpInfer,
  kHttpTranscribe,
  kHttpTranslate,
  kHttpOther,
  kWebSocketRecognize,
};
// "grpc", "http" or "websocket", and the method's name in it.
absl::string_view ProtocolOf(Method method);
absl::string_view NameOf(Method method);

// Why a call was not decoded at all, as docs/operations.md lists it; empty for what failed on its
// way.
std::string RejectionReason(const absl::Status& status);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_METHOD_H_
