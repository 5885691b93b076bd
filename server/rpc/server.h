// Server: the gRPC listener with its services: decoding, models, health and reflection.
#ifndef BEAMWRIGHT_SERVER_RPC_SERVER_H_
#define BEAMWRIGHT_SERVER_RPC_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/rpc/decode_service.h"
#include "server/rpc/model_service.h"
#include "server/rpc/reply_thread.h"

namespace beamwright::rpc {

inline constexpr int kMaxReceiveBytes = 16 << 20;

class Server {
 public:
  // Listens on `address` ("host:port", "[::]:port", "unix:/path"; port 0 takes a free one) and
  // serves. The port is shared with no other process. Unavailable if it can't be bound. The
  // registry and the engine must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address,
                                                       const ModelRegistry& models,
                                                       engine::Engine& engine);
  // Stops at once unless drained.
  ~Server();

  // Where it listens, with the port that was chosen; 0 for a Unix socket.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // Health becomes NOT_SERVING and new calls are refused with Unavailable; returns when the
  // accepted ones are answered. What still runs after `timeout` is cancelled. Call once.
  void Drain(absl::Duration timeout);

 private:
  Server(const ModelRegistry& models, engine::Engine& engine);

  engine::Engine& engine_;
  ReplyThread replies_;
  DecodeService decode_;
  ModelService models_;
  std::unique_ptr<grpc::Server> server_;  // uses the services
  std::string address_;
  int port_ = 0;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_SERVER_H_
