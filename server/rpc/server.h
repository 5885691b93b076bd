// Server: the gRPC listener with its services: decoding, models, the Open Inference Protocol,
// health and reflection.
#ifndef BEAMWRIGHT_SERVER_RPC_SERVER_H_
#define BEAMWRIGHT_SERVER_RPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/guard.h"
#include "server/oip/service.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/connection_watch.h"
#include "server/rpc/gate.h"
#include "server/rpc/grpc_limits.h"
#include "server/rpc/services.h"
#include "server/rpc/unknown_call.h"

namespace beamwright::rpc {

struct ServerOptions {
  // "host:port", "[::]:port", "unix:/path"; port 0 takes a free one.
  std::string address;
  int max_connections = 4096;
  int max_connections_per_client = 0;               // by address; 0: as many as there may be
  int max_files = std::numeric_limits<int>::max();  // as ConnectionLimits::max_files
  int max_receive_bytes = 16 << 20;
  int max_concurrent_streams = 256;   // of a connection
  int max_metadata_bytes = 16 << 10;  // headers of a call
  // What the kernel ends the process at; 0: no limit.
  int64_t memory_limit_bytes = 0;
  // Null for clear text; must outlive the server.
  const access::TlsContext* tls = nullptr;
  // Whether the server describes its services to callers that have any role.
  bool reflection = true;
};

class Server {
 public:
  // Listens and serves. The port is shared with no other process. InvalidArgument for an address
  // that is malformed; Unavailable if it can't be bound. Access and service must outlive the
  // server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const access::Access& access,
                                                       oip::Service& service);
  // Stops at once unless stopped before.
  ~Server();

  // Where it listens, with the port that was chosen; 0 for a Unix socket.
  const std::string& address() const { return address_; }
  int port() const { return acceptor_->port(); }
  // How many connections are open. Thread-safe.
  int CountConnections() const { return acceptor_->CountOpen(); }
  // How many were reset because they kept others from being read. Thread-safe.
  int64_t CountCutOff() const { return acceptor_->CountCutOff(); }

  // Ends streams when what they asked is answered.
  void EndStreams() { inference_.EndStreams(); }
  // While the server drains, now and then: resets connections whose client has not read an answer
  // for `time`, with all their calls.
  void DropUnread(absl::Duration time);
  // Closes the listener; what is open half a second later is cancelled. `closing` is called when
  // connections have got GOAWAY: they take no more calls. Once.
  void Stop(const std::function<void()>& closing);

 private:
  Server(const ServerOptions& options, const access::Access& access, oip::Service& service);
  // Adds all services to a builder.
  void Register(bool reflection, grpc::ServerBuilder& builder);

  serving::Availability& availability_;
  const Gate gate_;
  DecodeService decode_;
  RecognizeService recognize_;
  TranslateService translate_;
  ModelService models_;
  InferenceService inference_;
  HealthService health_;
  UnknownMethods unknown_;
  // With reflection.
  std::optional<ReflectionAnswers> reflection_answers_;
  std::optional<ReflectionService<grpc::reflection::v1::ServerReflection>> reflection_;
  std::optional<ReflectionService<grpc::reflection::v1alpha::ServerReflection>> reflection_alpha_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<grpc::Server> server_;                    // uses the services and credentials
  std::unique_ptr<OneCallbackThread> one_callback_thread_;  // uses the server
  std::unique_ptr<Acceptor> acceptor_;                      // hands connections to the server
  std::unique_ptr<ConnectionWatch> watch_;                  // uses the server and the acceptor
  std::string address_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_SERVER_H_
