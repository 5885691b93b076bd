// DecodeService: beamwright.v1.DecodeService over gRPC's callback API. A handler parses, asks the
// registry for the model and gives each source to the engine; no gRPC thread waits for a step.
#ifndef BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.grpc.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/model_registry.h"
#include "server/rpc/reply_thread.h"

namespace beamwright::rpc {

inline constexpr int kMaxSources = 4096;

class DecodeCall;

// Thread-safe. The registry, engine and reply thread must outlive it.
class DecodeService final
    : public v1::DecodeService::WithRawCallbackMethod_Decode<v1::DecodeService::Service> {
 public:
  DecodeService(const ModelRegistry& models, engine::Engine& engine, ReplyThread& replies)
      : models_(models), engine_(engine), replies_(replies) {}

  grpc::ServerUnaryReactor* Decode(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

  // Calls from now on fail with Unavailable.
  void Refuse() { refusing_ = true; }
  // True when every call has been answered and its answer written; false if `timeout` came first.
  bool WaitUntilAnswered(absl::Duration timeout);

 private:
  friend class DecodeCall;
  void CallEnded();
  bool NoCalls() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_calls_ == 0; }

  const ModelRegistry& models_;
  engine::Engine& engine_;
  ReplyThread& replies_;
  std::atomic<bool> refusing_{false};
  absl::Mutex mutex_;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_DECODE_SERVICE_H_
