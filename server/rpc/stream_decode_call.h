// StreamDecodeCall: a StreamDecode call, as gRPC sees it. It writes one message at a time and asks
// the stream for the next when gRPC has taken the last, so a client that does not read makes
// messages fewer and larger, and delays no other call.
#ifndef BEAMWRIGHT_SERVER_RPC_STREAM_DECODE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_STREAM_DECODE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/decode_call.h"
#include "server/rpc/one_request_call.h"
#include "server/rpc/raw_message.h"
#include "server/serving/decode_stream.h"

namespace beamwright::rpc {

// Lives until gRPC is done with it and no thread is about to wake it.
class StreamDecodeCall final : public OneRequestCall {
 public:
  static StreamDecodeCall* Start(const Gate& gate, serving::Core& core,
                                 grpc::CallbackServerContext& context, const GuardedMethod& method);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_->Cancel(); }
  void OnDone() override { self_ = nullptr; }

 private:
  StreamDecodeCall(const Gate& gate, serving::Core& core, grpc::CallbackServerContext& context)
      : OneRequestCall(gate, context), core_(core), deadline_(DeadlineOf(context)) {}
  void OnRequest(grpc::ByteBuffer& bytes) override { Start(Parse<v1::StreamDecodeRequest>(bytes)); }
  void OnRefused(const absl::Status& status) override { Start(status); }
  // Starts to decode; a request that is an error is refused with it.
  void Start(absl::StatusOr<v1::StreamDecodeRequest> request);
  // Writes what there is, or ends the call; nothing while a write is under way.
  void Advance();

  serving::Core& core_;
  const absl::Time deadline_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<StreamDecodeCall> self_;  // while gRPC uses it

  absl::Mutex mutex_;
  std::shared_ptr<serving::DecodeStream> stream_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer bytes_;  // of the write under way
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_STREAM_DECODE_CALL_H_
