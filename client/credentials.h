// What a client shows of itself and asks of its server: SecurityOptions as gRPC takes them. Private
// to the client library.
#ifndef BEAMWRIGHT_CLIENT_CREDENTIALS_H_
#define BEAMWRIGHT_CLIENT_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace beamwright::client {

// InvalidArgument for a certificate without its key, NotFound for a file that is not there.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const SecurityOptions& options);

// What goes into the header `authorization`: "Bearer TOKEN", or nothing without a token file.
// InvalidArgument where the token would cross a network in clear text.
absl::StatusOr<std::string> ReadAuthorization(const ClientOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CREDENTIALS_H_
