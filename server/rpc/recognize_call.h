// RecognizeCall: a Recognize call, as gRPC sees it. It reads a request when the one before was
// taken and the engine keeps up, and writes one message at a time, asking for the next when gRPC
// has taken the last: neither a client that sends quickly nor one that does not read holds more
// than a message.
#ifndef BEAMWRIGHT_SERVER_RPC_RECOGNIZE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_RECOGNIZE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/access/access.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/recognition.h"

namespace beamwright::rpc {

// Lives until gRPC is done with it and no thread is about to wake it.
class RecognizeCall final : public RawReactor {
 public:
  // An identity that is an error ends the call with it.
  static RecognizeCall* Start(const Gate& gate, serving::Core& core,
                              grpc::CallbackServerContext& context,
                              const absl::StatusOr<access::Identity>& identity);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_ = nullptr; }

 private:
  RecognizeCall(const Gate& gate, serving::Core& core, grpc::CallbackServerContext& context)
      : gate_(gate), core_(core), context_(context) {}
  void Begin(const access::Identity& identity);
  // Calls Advance on the reply thread: the engine's has other things to do than to write.
  std::function<void()> Waker();
  // Starts what can be started: a read, a write, or the end.
  void Advance();

  const Gate& gate_;
  serving::Core& core_;
  grpc::CallbackServerContext& context_;
  std::shared_ptr<RecognizeCall> self_;  // while gRPC uses it
  std::shared_ptr<serving::Recognition> recognition_;

  absl::Mutex mutex_;
  grpc::ByteBuffer request_;  // of the read under way
  grpc::ByteBuffer reply_;    // of the write under way
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool at_end_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more will be read
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_RECOGNIZE_CALL_H_
