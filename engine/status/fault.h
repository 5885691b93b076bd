// Errors as data: what is wrong with a field of a request or a file, and what programs read off an
// error.
#ifndef BEAMWRIGHT_ENGINE_STATUS_FAULT_H_
#define BEAMWRIGHT_ENGINE_STATUS_FAULT_H_

#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/rpc/error_details.pb.h"

namespace beamwright::status {

// Fault: what is wrong with a request, or with a file, as data: a field and a text. A fault is made
// once, where it is found, and each layer on the way out may rename its field ("text" becomes
// "targets[0].text"); messages are for people. A status carries faults as a google.rpc.BadRequest
// with the message made of them, so that each protocol renders the same faults: gRPC and REST
// as details, the Open Inference Protocol and the command line as the message.

struct Fault {
  std::string field;  // "options.beam_size"; empty if no single field is at fault
  std::string text;   // what is wrong with it and what is allowed: "0 is outside [1, 256]"
};

bool operator==(const Fault& a, const Fault& b);

// A list that grows by the field and the pieces of the text, which are joined as by absl::StrCat.
class Faults : public std::vector<Fault> {
 public:
  using std::vector<Fault>::vector;

  template <typename... Pieces>
  void Add(absl::string_view field, const Pieces&... pieces) {
    push_back({std::string(field), absl::StrCat(pieces...)});
  }
};

// "options.beam_size: 0 is outside [1, 256]".
std::string ToString(const Fault& fault);
// Of all of them, "; " between them.
std::string ToString(absl::Span<const Fault> faults);

// InvalidArgument that carries the faults; its message is theirs. There must be one.
absl::Status InvalidFields(absl::Span<const Fault> faults);
// OK without faults.
absl::Status OkOrInvalid(absl::Span<const Fault> faults);
template <typename... Pieces>
absl::Status InvalidField(absl::string_view field, const Pieces&... pieces) {
  return InvalidFields({Fault{std::string(field), absl::StrCat(pieces...)}});
}

// The faults that the status carries, in the order in which they were found; of any other error its
// message, as a fault of no field; none of OK. What was not UTF-8 is escaped.
Faults FaultsOf(const absl::Status& status);

// The status with each fault's field replaced by what `rename` makes of it, in the message as well,
// unless that says more than the faults (Annotate). A status without faults stays as it is.
absl::Status WithFields(const absl::Status& status,
                        absl::FunctionRef<std::string(absl::string_view)> rename);

// An InvalidArgument whose message says what is wrong with `field`; any other error gets the field
// before its message. OK stays OK.
absl::Status AtField(const absl::Status& status, absl::string_view field);

// What programs read off an error, as payloads of absl::Status: google.rpc.ErrorInfo with a reason,
// RetryInfo and BadRequest. They travel with the status and are sent with it by every
// protocol (engine/status/wire_status.h); an error without a reason gets that of its code there.

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
// What `make` returns, an absl::Status or absl::StatusOr; OutOfMemory if it throws std::bad_alloc.
template <typename Make>
std::invoke_result_t<const Make&> OrOutOfMemory(const Make& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

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

#endif  // BEAMWRIGHT_ENGINE_STATUS_FAULT_H_
