// Statuses on their way to a client, whatever the protocol.
#ifndef BEAMWRIGHT_SERVER_SERVING_WIRE_STATUS_H_
#define BEAMWRIGHT_SERVER_SERVING_WIRE_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace beamwright::serving {

// Never UNKNOWN, which would tell a client nothing: what has no code of its own is INTERNAL.
absl::StatusCode WireCode(absl::StatusCode code);

// Valid UTF-8, cut to what fits into a trailer.
std::string WireMessage(const absl::Status& status);

// Both as a message, for one source of a call; `status` is not OK.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// The code that HTTP answers with: 400 for INVALID_ARGUMENT, 429 for RESOURCE_EXHAUSTED and so on;
// 200 for OK.
int HttpCode(absl::StatusCode code);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_WIRE_STATUS_H_
