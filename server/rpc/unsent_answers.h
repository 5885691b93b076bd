// UnsentAnswers: the calls whose answer was handed to gRPC and is not sent yet. A client that does
// not read leaves answers in the server's memory for as long as it likes.
#ifndef BEAMWRIGHT_SERVER_RPC_UNSENT_ANSWERS_H_
#define BEAMWRIGHT_SERVER_RPC_UNSENT_ANSWERS_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::rpc {

// Thread-safe.
class UnsentAnswers {
 public:
  // The call of this context has its answer.
  void Add(grpc::CallbackServerContext& context);
  // The call ends, whether it was added or not; its context is valid until this returns.
  void Remove(grpc::CallbackServerContext& context);
  // Cancels the calls whose answer was handed over before `time`. Returns the peers
  // (grpc::ServerContext::peer) that the calls are of.
  absl::flat_hash_set<std::string> CancelOlderThan(std::chrono::steady_clock::time_point time);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<grpc::CallbackServerContext*, std::chrono::steady_clock::time_point> calls_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_UNSENT_ANSWERS_H_
