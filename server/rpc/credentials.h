// The gRPC listener's side of TLS.
#ifndef BEAMWRIGHT_SERVER_RPC_CREDENTIALS_H_
#define BEAMWRIGHT_SERVER_RPC_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/access/tls.h"

namespace beamwright::rpc {

// Clear text without `tls`. New connections get what it has read last; gRPC's own watcher of files
// takes whatever they hold, and refuses everybody until they are good again. For one listener; they
// and `tls` must outlive the server.
std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const access::TlsContext* tls);

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CREDENTIALS_H_
