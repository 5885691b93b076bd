// Statuses on their way to a client, whatever the protocol.
#ifndef BEAMWRIGHT_ENGINE_STATUS_WIRE_STATUS_H_
#define BEAMWRIGHT_ENGINE_STATUS_WIRE_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"

namespace beamwright::status {

// Never UNKNOWN, which says nothing to a client: errors without a code are INTERNAL.
absl::StatusCode WireCode(absl::StatusCode code);

// `text` for those who take valid UTF-8 alone: escaped where it is not, and cut.
std::string WireText(absl::string_view text, size_t max_bytes);

// The message, cut to what fits into a trailer.
std::string WireMessage(const absl::Status& status);

// What a status is sent in: gRPC's trailer, for which clients have 8 KiB, or a body of HTTP.
enum class Room { kTrailer, kBody };

// Both as a message; `status` is not OK. Its details are an ErrorInfo, whose reason is the code's
// where the status has no reason; a RetryInfo where trying again makes sense; a BadRequest
// where fields are at fault (status/error_details.h); the errors of sources where a call failed for
// them (source_errors.h), as far as there is room.
google::rpc::Status ToRpcStatus(const absl::Status& status, Room room = Room::kTrailer);
// The way back, details included.
absl::Status FromRpcStatus(const google::rpc::Status& status);

// When a client may try again; infinite where that makes no sense.
absl::Duration RetryAfter(const absl::Status& status);

// The code that HTTP answers with: 400 for INVALID_ARGUMENT, 429 for RESOURCE_EXHAUSTED and so on;
// 200 for OK.
int HttpCode(absl::StatusCode code);

}  // namespace beamwright::status

#endif  // BEAMWRIGHT_ENGINE_STATUS_WIRE_STATUS_H_
