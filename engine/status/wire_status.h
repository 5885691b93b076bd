// Errors on their way to a client, whatever the protocol: of a source, of all of a call's sources,
// of a call.
#ifndef BEAMWRIGHT_ENGINE_STATUS_WIRE_STATUS_H_
#define BEAMWRIGHT_ENGINE_STATUS_WIRE_STATUS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "beamwright/v1/source_errors.pb.h"
#include "google/rpc/status.pb.h"

namespace beamwright::status {

// What a call ends with when none of its sources has an answer: a status that a client's retry
// policy can act on, with the error of each source in its details (beamwright.v1.SourceErrors).
// docs/operations.md, 'Calls without an answer', promises the rules.

// How a request names its sources: "sources[2].ids[1]" is what errors of the source call
// "source.ids[1]".
struct SourceNames {
  absl::string_view list;     // empty: the request has no list
  absl::string_view element;  // that errors name the source by itself; empty: its fields alone
};

// The status of a call all of whose sources failed; errors: at least one, as they would be sent.
// Of one source it is that source's status. Of several it has the code, the reason and the longest
// wait of those that stand first in this order: UNAVAILABLE; RESOURCE_EXHAUSTED that says when to
// try again; DEADLINE_EXCEEDED; faults of the server; faults of the request; what never fits;
// CANCELLED. So a client that tries again whenever that can help a source loses none, and one that
// gets a fault of its request knows that trying again helps no source.
absl::Status StatusOfFailedCall(absl::Span<const google::rpc::Status* const> errors,
                                const SourceNames& names);

// The same for the results of an answer; OK if one of them is not an error.
template <typename Results>
absl::Status OutcomeOf(const Results& results, const SourceNames& names) {
  std::vector<const google::rpc::Status*> errors;
  for (const auto& result : results) {
    if (!result.has_error()) {
      return absl::OkStatus();
    }
    errors.push_back(&result.error());
  }
  return errors.empty() ? absl::OkStatus() : StatusOfFailedCall(errors, names);
}

// How many results are errors.
template <typename Results>
int CountErrors(const Results& results) {
  int count = 0;
  for (const auto& result : results) {
    count += result.has_error() ? 1 : 0;
  }
  return count;
}

// Cut to `max_bytes` as a message. First to go are details and all but the
// beginning of messages, then the errors of the last sources; the counts stay whatever the limit.
v1::SourceErrors Shortened(const v1::SourceErrors& errors, size_t max_bytes);

// Statuses on their way to a client, whatever the protocol.

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
// where fields are at fault (status/fault.h); the errors of sources where a call failed for
// them, as far as there is room.
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
