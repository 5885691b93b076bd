// Channelz: gRPC's own account of its connections and calls (gRFC A14), on a listener of its own,
// because it tells everybody who asks about everybody else.
#ifndef BEAMWRIGHT_SERVER_RPC_CHANNELZ_H_
#define BEAMWRIGHT_SERVER_RPC_CHANNELZ_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace beamwright::rpc {

// To be called when all other servers of the process have been started: they would offer it as
// well. Logs the address, with the port that was taken. Unavailable if the address can't be bound.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartChannelz(const std::string& address);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CHANNELZ_H_
