#include "server/serving/wire_status.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/model/utf8.h"

namespace beamwright::serving {
namespace {

// Clients refuse trailers above 8 KiB, and a character may take three bytes each there.
constexpr size_t kMaxMessageBytes = 2048;

}  // namespace

absl::StatusCode WireCode(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown ? absl::StatusCode::kInternal : code;
}

std::string WireMessage(const absl::Status& status) {
  std::string text(status.message());
  if (!model::CheckUtf8(text).ok()) {
    text = absl::CHexEscape(text);
  }
  if (text.size() <= kMaxMessageBytes) {
    return text;
  }
  size_t end = kMaxMessageBytes;
  while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), " ... (", text.size() - end, " bytes more)");
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status result;
  result.set_code(static_cast<int>(WireCode(status.code())));
  result.set_message(WireMessage(status));
  return result;
}

int HttpCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;  // nginx's "client closed request"; nobody reads it
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace beamwright::serving
