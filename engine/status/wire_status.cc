// Statuses as they are sent: google.rpc.Status with an ErrorInfo (reason), RetryInfo, BadRequest
// (fields at fault) and SourceErrors.
//
// Clients of gRPC refuse trailers above 8 KiB, and a message is sent twice: percent-encoded, where
// a character may take three bytes, and with the details in base64. ToRpcStatus therefore cuts the
// message and the fields, and SourceErrors to what is left (RoomInTrailer). Texts that are no UTF-8
// are escaped, since protobuf and HTTP/2 refuse them (WireText).
//
// RetryAfter says after how long trying again makes sense, and HttpCode which HTTP status a code
// becomes.
#include "engine/status/wire_status.h"

#include <algorithm>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"
#include "engine/status/source_errors.h"
#include "ops/base/utf8.h"

namespace beamwright::status {
namespace {

// Clients refuse trailers above 8 KiB; a character may take three bytes each there, and the message
// is sent once more, in base64, with the details.
constexpr size_t kMaxMessageBytes = 1024;
// The same for metadata of an ErrorInfo.
constexpr size_t kMaxDetailBytes = 1024;

// Most faults of a request that are sent, and the bytes of each.
constexpr int kMaxViolations = 8;
constexpr size_t kMaxDescription = 96;

// Bytes of message and details together, as they are sent: the rest of 8 KiB is for other trailers.
constexpr size_t kMaxTrailerBytes = 7 << 10;

constexpr absl::Duration kRetrySoon = absl::Milliseconds(100);
constexpr absl::Duration kRetryLater = absl::Seconds(1);

// The reason of an error that has none.
std::string ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return reason::kInvalidRequest;
    case absl::StatusCode::kResourceExhausted:
      return reason::kTooLarge;
    default:
      return absl::StatusCodeToString(code);
  }
}

// A piece of a text; whole characters of UTF-8.
std::string Beginning(absl::string_view text, size_t size) {
  if (text.size() > size) {
    while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) {
      --size;
    }
    text = text.substr(0, size);
  }
  return std::string(text);
}

// The first faults, as many as there is room for.
google::rpc::BadRequest Shortened(const google::rpc::BadRequest& bad) {
  google::rpc::BadRequest result;
  for (int i = 0; i < std::min(bad.field_violations_size(), kMaxViolations); ++i) {
    google::rpc::BadRequest::FieldViolation& violation = *result.add_field_violations();
    violation.set_field(Beginning(bad.field_violations(i).field(), kMaxDescription));
    violation.set_description(Beginning(bad.field_violations(i).description(), kMaxDescription));
  }
  return result;
}

void AddDetail(const google::protobuf::Message& detail, google::rpc::Status& status) {
  status.add_details()->PackFrom(detail);
}

// How many bytes of a message gRPC makes of it: all but printable ASCII is percent-encoded.
size_t PercentEncodedSize(absl::string_view text) {
  size_t size = 0;
  for (const char c : text) {
    size += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  }
  return size;
}

// How many bytes more the details of a status may take in a trailer, where they are in base64.
size_t RoomInTrailer(const google::rpc::Status& status) {
  // The detail's type URL, and what base64 and protobuf add around it.
  constexpr size_t kAround = 96;
  const size_t message = PercentEncodedSize(status.message());
  const size_t all = message < kMaxTrailerBytes ? (kMaxTrailerBytes - message) / 4 * 3 : 0;
  const size_t taken = status.ByteSizeLong() + kAround;
  return taken < all ? all - taken : 0;
}

}  // namespace

absl::StatusCode WireCode(absl::StatusCode code) {
  return code == absl::StatusCode::kUnknown ? absl::StatusCode::kInternal : code;
}

std::string WireText(absl::string_view original, size_t max_bytes) {
  std::string text(original);
  if (!CheckUtf8(text).ok()) {
    text = absl::CHexEscape(text);
  }
  if (text.size() <= max_bytes) {
    return text;
  }
  size_t end = max_bytes;
  while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(text.substr(0, end), " ... (", text.size() - end, " bytes more)");
}

std::string WireMessage(const absl::Status& status) {
  return WireText(status.message(), kMaxMessageBytes);
}

google::rpc::Status ToRpcStatus(const absl::Status& status, Room room) {
  google::rpc::Status result;
  const absl::StatusCode code = WireCode(status.code());
  result.set_code(static_cast<int>(code));
  result.set_message(WireMessage(status));
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  AddDetail(info.has_value() && info->ByteSizeLong() <= kMaxDetailBytes
                ? *info
                : *DetailOf<google::rpc::ErrorInfo>(
                      WithReason(status, info.has_value() ? info->reason() : ReasonOfCode(code))),
            result);
  if (const absl::Duration wait = RetryAfter(status); wait != absl::InfiniteDuration()) {
    AddDetail(*DetailOf<google::rpc::RetryInfo>(WithRetryAfter(status, wait)), result);
  }
  if (const auto bad = DetailOf<google::rpc::BadRequest>(status); bad.has_value()) {
    AddDetail(Shortened(*bad), result);
  }
  if (const auto sources = DetailOf<v1::SourceErrors>(status); sources.has_value()) {
    AddDetail(room == Room::kBody ? *sources : Shortened(*sources, RoomInTrailer(result)), result);
  }
  return result;
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  for (const google::protobuf::Any& detail : status.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

absl::Duration RetryAfter(const absl::Status& status) {
  if (const std::optional<absl::Duration> wait = RetryAfterOf(status); wait.has_value()) {
    return *wait;
  }
  if (absl::IsUnavailable(status)) {
    return kRetryLater;
  }
  const std::string why = ReasonOf(status);
  // What is too large will not become smaller.
  const bool for_good = why.empty() || why == reason::kTooLarge || why == reason::kReplyTooLarge;
  return absl::IsResourceExhausted(status) && !for_good ? kRetrySoon : absl::InfiniteDuration();
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
      return 499;  // nginx's "client closed request"; the client has gone
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

}  // namespace beamwright::status
