// Statuses as gRPC takes them.
#ifndef BEAMWRIGHT_SERVER_RPC_RPC_STATUS_H_
#define BEAMWRIGHT_SERVER_RPC_RPC_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace beamwright::rpc {

// Code, message and details (grpc-status-details-bin) of a call, as status/wire_status.h has them.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same for a call that ends: a refusal for want of room also gives retrying clients the time
// to wait (trailer grpc-retry-pushback-ms).
grpc::Status EndOfCall(const absl::Status& status, grpc::CallbackServerContext& context);
// Where the status has been made ready to be sent already; `status` is not OK.
grpc::Status EndOfCall(const absl::Status& status, const google::rpc::Status& wire,
                       grpc::CallbackServerContext& context);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RPC_STATUS_H_
