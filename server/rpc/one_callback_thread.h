// OneCallbackThread: keeps one of gRPC's two callback threads out of the way.
//
// gRPC runs callbacks, and polls sockets, on its pool of threads: two on machines of up to
// five cores, and there is no setting for fewer. Whichever polls hands polling on to the other one
// before it looks at what came, so each message wakes a thread that finds nothing to do: half of
// the CPU time of a small call (docs/benchmarks.md, 'Servers'). Handlers here never
// wait, so that one thread suffices; the other one is kept in a callback that does.
#ifndef BEAMWRIGHT_SERVER_RPC_ONE_CALLBACK_THREAD_H_
#define BEAMWRIGHT_SERVER_RPC_ONE_CALLBACK_THREAD_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server.h>

#include <memory>

#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace beamwright::rpc {

class OneCallbackThread {
 public:
  // Null where it would not help: on larger machines, with a version of gRPC whose threads were
  // never looked at, or if the process has one already. The server must outlive it.
  static std::unique_ptr<OneCallbackThread> Hold(grpc::Server& server);
  // Gives the thread back.
  ~OneCallbackThread();
  OneCallbackThread(const OneCallbackThread&) = delete;
  OneCallbackThread& operator=(const OneCallbackThread&) = delete;

 private:
  explicit OneCallbackThread(grpc::Server& server);

  grpc::ClientContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::health::v1::HealthCheckResponse response_;
  absl::Notification give_back_;
  absl::Notification given_back_;
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_ONE_CALLBACK_THREAD_H_
