// Calls that answer with a stream, as gRPC sees them: StreamDecode, StreamTranslate and Recognize.
#ifndef BEAMWRIGHT_SERVER_RPC_STREAM_CALLS_H_
#define BEAMWRIGHT_SERVER_RPC_STREAM_CALLS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/translate.pb.h"
#include "server/access/access.h"
#include "server/rpc/decode_call.h"
#include "server/rpc/gate.h"
#include "server/rpc/one_request_call.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/raw_service.h"
#include "server/serving/decode_stream.h"
#include "server/serving/recognition.h"
#include "server/translate/translate.h"

namespace beamwright::rpc {

// Calls that answer with a stream, as gRPC sees them: StreamDecode and StreamTranslate.

// StreamDecodeCall: a StreamDecode call, as gRPC sees it. It writes one message at a time and asks
// the stream for the next when gRPC has taken the last, so a client that does not read makes
// messages fewer and larger, and delays no other call.

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

// StreamTranslateCall: a StreamTranslate call, as gRPC sees it. It writes one message at a time;
// what comes meanwhile for a client that reads slowly becomes one message, up to a size.

// Lives until gRPC is done with it and the translator has said all.
class StreamTranslateCall final : public OneRequestCall {
 public:
  static StreamTranslateCall* Start(const Gate& gate, serving::Core& core,
                                    translate::Translator& translator,
                                    grpc::CallbackServerContext& context,
                                    const GuardedMethod& method);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_->Cancel(); }
  void OnDone() override { self_ = nullptr; }

 private:
  StreamTranslateCall(const Gate& gate, serving::Core& core, translate::Translator& translator,
                      grpc::CallbackServerContext& context);
  void OnRequest(grpc::ByteBuffer& bytes) override { Start(Parse<v1::TranslateRequest>(bytes)); }
  void OnRefused(const absl::Status& status) override { Start(status); }
  // Starts to translate; a request that is an error is refused with it.
  void Start(absl::StatusOr<v1::TranslateRequest> request);
  void Add(v1::TranslateResponse message);
  void End(const absl::Status& status);
  // Writes what there is, or ends the call; nothing while a write is under way.
  void Advance();

  serving::Core& core_;
  translate::Translator& translator_;
  const absl::Time deadline_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<StreamTranslateCall> self_;  // while gRPC uses it

  absl::Mutex mutex_;
  std::deque<v1::TranslateResponse> messages_ ABSL_GUARDED_BY(mutex_);  // not written yet
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);             // behind the messages
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // of a message that cannot be written
  grpc::ByteBuffer bytes_;                        // of the write under way
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// RecognizeCall: a Recognize call, as gRPC sees it. It reads a request when the one before was
// taken and the engine keeps up, and writes one message at a time, asking for the next when gRPC
// has taken the last: neither a client that sends quickly nor one that does not read holds more
// than a message.

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

#endif  // BEAMWRIGHT_SERVER_RPC_STREAM_CALLS_H_
