// Statuses on their way to the wire.
#ifndef BEAMWRIGHT_SERVER_RPC_RPC_STATUS_H_
#define BEAMWRIGHT_SERVER_RPC_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace beamwright::rpc {

// The code and message of a call. Never UNKNOWN, which would tell a client nothing: what has no
// code of its own is INTERNAL. Messages are cut to what fits into a trailer.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same for one source of a call; `status` is not OK.
google::rpc::Status ToRpcStatus(const absl::Status& status);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RPC_STATUS_H_
