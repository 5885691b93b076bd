// HeaderLimit: how large the headers of a call may be, as decoded. gRPC 1.51 applies its limit once
// the client has acknowledged SETTINGS, and takes 16 MiB before that. A byte may refer to an entry
// of HPACK's table, and each field takes 240 bytes of the server until its call ends.
#ifndef BEAMWRIGHT_SERVER_RPC_HEADER_LIMIT_H_
#define BEAMWRIGHT_SERVER_RPC_HEADER_LIMIT_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace beamwright::rpc {

// Thread-safe once OnFlood was called.
class HeaderLimit {
 public:
  // max_bytes: of the headers of a call, as they are sent.
  explicit HeaderLimit(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // `reset` is called with the peer (grpc::ServerContext::peer) of each call whose headers can only
  // be references.
  void OnFlood(std::function<void(const std::string& peer)> reset) { reset_ = std::move(reset); }

  // ResourceExhausted if the headers are too large.
  absl::Status Check(const grpc::ServerContextBase& context) const;

 private:
  const int64_t max_bytes_;
  std::function<void(const std::string& peer)> reset_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_HEADER_LIMIT_H_
