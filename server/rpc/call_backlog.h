// CallBacklog: how many calls gRPC has read, and for how many of them no handler has run yet. gRPC
// reads calls faster than it runs handlers and queues them without bound.
#ifndef BEAMWRIGHT_SERVER_RPC_CALL_BACKLOG_H_
#define BEAMWRIGHT_SERVER_RPC_CALL_BACKLOG_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace beamwright::rpc {

// Thread-safe. Outlives the server that it counts for.
class CallBacklog {
 public:
  // For ServerBuilder::SetContextAllocator: gRPC makes a call's context when it has read its
  // headers.
  std::unique_ptr<grpc::ContextAllocator> MakeAllocator();
  // A handler of the call runs.
  void Leave(grpc::CallbackServerContext& context);
  int64_t size() const { return size_; }
  // How many calls there are: those that wait and those whose handlers have not ended.
  int64_t num_calls() const { return num_calls_; }
  // How many calls handlers have seen so far.
  int64_t num_left() const { return num_left_; }

 private:
  class Allocator;
  class Context;

  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> num_calls_{0};
  std::atomic<int64_t> num_left_{0};
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CALL_BACKLOG_H_
