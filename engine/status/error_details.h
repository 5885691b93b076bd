// What programs read off an error, as payloads of absl::Status: google.rpc.ErrorInfo with a reason,
// RetryInfo and BadRequest (fault.h). They travel with the status and are sent with it by every
// protocol (engine/status/wire_status.h); an error without a reason gets that of its code there.
#ifndef BEAMWRIGHT_ENGINE_STATUS_ERROR_DETAILS_H_
#define BEAMWRIGHT_ENGINE_STATUS_ERROR_DETAILS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"

namespace beamwright::status {

// Reasons, listed with their meaning in docs/operations.md, 'Status codes'.
namespace reason {
inline constexpr char kInvalidRequest[] = "INVALID_REQUEST";
inline constexpr char kNotFound[] = "NOT_FOUND";
inline constexpr char kNoSuchPath[] = "NO_SUCH_PATH";
inline constexpr char kTooSlow[] = "TOO_SLOW";
inline constexpr char kQueueFull[] = "QUEUE_FULL";
inline constexpr char kTenantRate[] = "TENANT_RATE";
inline constexpr char kTenantQuota[] = "TENANT_QUOTA";
inline constexpr char kWouldMissDeadline[] = "WOULD_MISS_DEADLINE";
inline constexpr char kOutOfMemory[] = "OUT_OF_MEMORY";
inline constexpr char kTooLarge[] = "TOO_LARGE";
inline constexpr char kReplyTooLarge[] = "REPLY_TOO_LARGE";
inline constexpr char kLoading[] = "LOADING";
inline constexpr char kShuttingDown[] = "SHUTTING_DOWN";
inline constexpr char kQuarantined[] = "MODEL_QUARANTINED";
// Of the library for decoding in process alone (include/beamwright/beamwright.h).
inline constexpr char kForked[] = "FORKED";
inline constexpr char kWrongMethod[] = "WRONG_METHOD";
inline constexpr char kTooManyConnections[] = "TOO_MANY_CONNECTIONS";
inline constexpr char kNoCredentials[] = "NO_CREDENTIALS";
inline constexpr char kBadCredentials[] = "BAD_CREDENTIALS";
inline constexpr char kRoleMissing[] = "ROLE_MISSING";
}  // namespace reason

using Metadata = std::vector<std::pair<std::string, std::string>>;

// `status`, which is not OK, with a reason; one that it had is replaced.
absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const Metadata& metadata = {});
// With the time after which a client may try again.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);
// With a detail as it is; one of its type that it had is replaced.
absl::Status WithDetail(absl::Status status, const google::protobuf::Message& detail);

// Of what fails because an allocation did: ResourceExhausted, worth another try. Made once, so that
// it takes no memory when memory is short.
const absl::Status& OutOfMemory();

// Empty without one.
std::string ReasonOf(const absl::Status& status);
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

// The payload of a status that is of type T.
template <typename T>
std::optional<T> DetailOf(const absl::Status& status) {
  const auto payload = status.GetPayload("type.googleapis.com/" + T::descriptor()->full_name());
  T detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  return detail;
}

}  // namespace beamwright::status

#endif  // BEAMWRIGHT_ENGINE_STATUS_ERROR_DETAILS_H_
