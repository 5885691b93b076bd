// gRPC channels as this client wants them: retries of idempotent calls, balancing over all
// addresses of a name, pings that notice a dead peer. Private to the client library.
#ifndef BEAMWRIGHT_CLIENT_CHANNELS_H_
#define BEAMWRIGHT_CLIENT_CHANNELS_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"

namespace beamwright::client {

// `address` with ":8001" added if it is a plain host without a port.
std::string WithDefaultPort(absl::string_view address);

// One channel for each of options.connections. InvalidArgument names the option at fault.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ClientOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CHANNELS_H_
