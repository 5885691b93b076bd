// StreamDecodeCall: a StreamDecode call, as gRPC sees it. It writes one message at a time and asks
// the stream for the next when gRPC has taken the last, so a client that does not read makes
// messages fewer and larger, and holds up nobody.
#ifndef BEAMWRIGHT_SERVER_RPC_STREAM_DECODE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_STREAM_DECODE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/access.h"
#include "server/serving/decode_stream.h"

namespace beamwright::rpc {

// Lives until gRPC is done with it and nobody is about to wake it.
class StreamDecodeCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // An identity that is an error ends the call with it.
  static StreamDecodeCall* Start(serving::Decoder& decoder, grpc::CallbackServerContext& context,
                                 const grpc::ByteBuffer& request,
                                 const absl::StatusOr<access::Identity>& identity);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_->Cancel(); }
  void OnDone() override { self_ = nullptr; }

 private:
  StreamDecodeCall(serving::Decoder& decoder, grpc::CallbackServerContext& context)
      : decoder_(decoder), open_(decoder.state()), context_(context) {}
  // Writes what there is, or ends the call; nothing while a write is under way.
  void Advance();

  serving::Decoder& decoder_;
  const serving::ServingState::OpenCall open_;
  grpc::CallbackServerContext& context_;
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
