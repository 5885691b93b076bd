#include "server/serving/caller.h"

#include "absl/strings/ascii.h"
#include "engine/status/fault.h"

namespace beamwright::serving {

namespace reason = status::reason;

absl::string_view ProtocolOf(Method method) {
  return method >= Method::kWebSocketRecognize ? "websocket"
         : method >= Method::kHttpDecode       ? "http"
                                               : "grpc";
}

absl::string_view NameOf(Method method) {
  switch (method) {
    case Method::kDecode:
    case Method::kHttpDecode:
      return "Decode";
    case Method::kStreamDecode:
    case Method::kHttpStreamDecode:
      return "StreamDecode";
    case Method::kScore:
    case Method::kHttpScore:
      return "Score";
    case Method::kAlign:
    case Method::kHttpAlign:
      return "Align";
    case Method::kModelStreamInfer:
      return "ModelStreamInfer";
    case Method::kRecognize:
    case Method::kHttpTranscribe:
    case Method::kWebSocketRecognize:
      return "Recognize";
    case Method::kModelInfer:
    case Method::kHttpInfer:
      return "ModelInfer";
    case Method::kTranslate:
    case Method::kHttpTranslate:
      return "Translate";
    case Method::kStreamTranslate:
      return "StreamTranslate";
    case Method::kGrpcOther:
    case Method::kHttpOther:
      break;
  }
  return "other";
}

std::string RejectionReason(const absl::Status& status) {
  const std::string why = status::ReasonOf(status);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return why == reason::kTooLarge ? "too_large" : "invalid";
    case absl::StatusCode::kNotFound:
      return why == reason::kNoSuchPath ? "invalid" : "unknown_model";
    case absl::StatusCode::kUnavailable:
      return why == reason::kQuarantined          ? "model_quarantined"
             : why == reason::kTooManyConnections ? "too_many_connections"
                                                  : "draining";
    case absl::StatusCode::kDeadlineExceeded:
      return why == reason::kTooSlow ? "too_slow" : "";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    case absl::StatusCode::kPermissionDenied:
      return "permission_denied";
    case absl::StatusCode::kResourceExhausted:
      for (const char* known :
           {reason::kTenantRate, reason::kTenantQuota, reason::kWouldMissDeadline,
            reason::kOutOfMemory, reason::kTooLarge, reason::kReplyTooLarge}) {
        if (why == known) {
          return absl::AsciiStrToLower(why);
        }
      }
      return "queue_full";
    default:
      return "";
  }
}

}  // namespace beamwright::serving
