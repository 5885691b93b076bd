// CallBacklog: how many calls gRPC has read, and for how many of them no handler has run yet. gRPC
// reads calls faster than it runs handlers and queues them without bound.
#ifndef BEAMWRIGHT_SERVER_RPC_CALL_BACKLOG_H_
#define BEAMWRIGHT_SERVER_RPC_CALL_BACKLOG_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/connection_calls.h"

namespace beamwright::rpc {

// Thread-safe. Outlives the server that it counts for.
class CallBacklog {
 public:
  CallBacklog();
  ~CallBacklog();
  // For ServerBuilder::SetContextAllocator: gRPC makes a call's context when it has read its
  // headers.
  std::unique_ptr<grpc::ContextAllocator> MakeAllocator();
  // A handler of the call runs. `connection` is the account of the connection that it came over;
  // null: none.
  void Leave(grpc::CallbackServerContext& context,
             std::shared_ptr<ConnectionCalls::Counts> connection = nullptr);
  // The call's request has come.
  void CountAsked(grpc::CallbackServerContext& context);
  int64_t size() const { return size_; }
  // How many calls there are: those that wait and those whose handlers have not ended.
  int64_t num_calls() const { return num_calls_; }
  // How many calls handlers have seen so far.
  int64_t num_left() const { return num_left_; }

 private:
  class Account;
  class Allocator;
  class Context;
  // Null for a context that the allocator did not make, as in tests. Valid while the context is.
  Account* AccountOf(grpc::CallbackServerContext& context);

  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> num_calls_{0};
  std::atomic<int64_t> num_left_{0};
  absl::Mutex mutex_;
  // Of calls of unknown methods, from whose context gRPC lets nothing derive.
  absl::flat_hash_map<grpc::CallbackServerContext*, std::unique_ptr<Account>> generic_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_CALL_BACKLOG_H_
