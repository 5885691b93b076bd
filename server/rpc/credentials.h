// The gRPC listener's side of TLS.
#ifndef BEAMWRIGHT_SERVER_RPC_CREDENTIALS_H_
#define BEAMWRIGHT_SERVER_RPC_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/time/time.h"
#include "server/access/tls.h"

namespace beamwright::rpc {

// Clear text without a certificate. gRPC looks at the files each `refresh`, whole seconds, and
// takes what they hold for new connections, once certificate and key fit each other. They are
// expected to be good now (access::TlsContext has looked): gRPC would only log that they are not.
std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const access::TlsFiles& tls,
                                                         absl::Duration refresh);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CREDENTIALS_H_
