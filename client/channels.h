// gRPC channels as this client wants them: retries of idempotent calls, balancing over all
// addresses of a name, pings that notice a dead peer; and SecurityOptions as gRPC takes them.
// Private to client/.
#ifndef BEAMWRIGHT_CLIENT_CHANNELS_H_
#define BEAMWRIGHT_CLIENT_CHANNELS_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

// Code, message and details.
absl::Status FromGrpcStatus(const grpc::Status& status);

// `address` with ":8001" added if it is a plain host without a port.
std::string WithDefaultPort(absl::string_view address);

// One channel for each of options.connections. InvalidArgument names the option at fault.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ClientOptions& options);

// InvalidArgument for a certificate without its key, NotFound for a file that is not there.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const SecurityOptions& options);

// What goes into the header `authorization`: "Bearer TOKEN", or nothing without a token file.
// InvalidArgument where the token would cross a network in clear text.
absl::StatusOr<std::string> ReadAuthorization(const ClientOptions& options);

// The names of enum values as people write them.

// LENGTH_PENALTY_POW is "pow". Empty for ..._UNSPECIFIED.
std::string ShortName(const google::protobuf::EnumValueDescriptor& value);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CHANNELS_H_
