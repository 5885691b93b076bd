// Calls that answer with a stream, as gRPC sees them: StreamDecode, StreamTranslate and Recognize.
#ifndef BEAMWRIGHT_SERVER_RPC_STREAM_CALLS_H_
#define BEAMWRIGHT_SERVER_RPC_STREAM_CALLS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/translate.pb.h"
#include "google/protobuf/message.h"
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

// MessageWriter: the write loop of a call that answers with a stream. It writes one message at a
// time and asks the call's source for the next message when gRPC has taken the last one, so a
// client that does not read makes messages fewer and larger, and delays no other call.
//
//   kReady --- the source has a message ---> kWriting --- gRPC has taken it ---> kReady
//   kReady --- the source has ended, or a message is too large ---> kEnded
//
// The call guards it by its mutex.
class MessageWriter {
 public:
  // stop: cancels the work for the call, because its client gets no further message; it may be
  // called more than once. What it is given must outlive it.
  MessageWriter(RawReactor& call, const Gate& gate, serving::Core& core,
                grpc::CallbackServerContext& context, std::function<void()> stop)
      : call_(call),
        core_(core),
        context_(context),
        stop_(std::move(stop)),
        unsent_(gate, context) {}

  // kReady: writes the next message of `source`, or ends the call as the source says. Other states:
  // nothing. The source has serving::Taken Take(Message&, absl::Status& end).
  template <typename Message, typename Source>
  void Advance(Source& source) {
    if (state_ != State::kReady) {
      return;
    }
    Message message;
    absl::Status end;
    switch (source.Take(message, end)) {
      case serving::Taken::kNothing:
        break;
      case serving::Taken::kMessage:
        Write(message);
        break;
      case serving::Taken::kEnd:
        End(end);
        break;
    }
  }
  // gRPC has taken the message; is_sent: false if the client is gone.
  void OnWritten(bool is_sent);
  // Ends the call with this status. Not while a message is being written, and once.
  void End(const absl::Status& status);

  bool has_ended() const { return state_ == State::kEnded; }

 private:
  enum class State { kReady, kWriting, kEnded };

  // A message that cannot be sent ends the call.
  void Write(const google::protobuf::Message& message);

  RawReactor& call_;
  serving::Core& core_;
  grpc::CallbackServerContext& context_;
  const std::function<void()> stop_;
  State state_ = State::kReady;
  grpc::ByteBuffer bytes_;  // of the write under way
  UnsentMessage unsent_;    // the same
};

// StreamDecodeCall: a StreamDecode call, as gRPC sees it. Lives until gRPC is done with it and no
// thread is about to wake it.
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
  void Advance();

  serving::Core& core_;
  const absl::Time deadline_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<StreamDecodeCall> self_;  // while gRPC uses it

  absl::Mutex mutex_;
  std::shared_ptr<serving::DecodeStream> stream_ ABSL_GUARDED_BY(mutex_);
  MessageWriter writer_ ABSL_GUARDED_BY(mutex_){*this, gate(), core_, context(),
                                                [this] { cancelled_->Cancel(); }};
};

// Messages of a translation that the client was not sent yet: small ones are joined.
class TranslatedMessages {
 public:
  void Add(v1::TranslateResponse message);
  // No message follows.
  void End(const absl::Status& status) { end_ = status; }
  serving::Taken Take(v1::TranslateResponse& message, absl::Status& end);

 private:
  std::deque<v1::TranslateResponse> messages_;
  std::optional<absl::Status> end_;
};

// StreamTranslateCall: a StreamTranslate call, as gRPC sees it. Lives until gRPC is done with it
// and the translator has ended.
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

  serving::Core& core_;
  translate::Translator& translator_;
  const absl::Time deadline_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<StreamTranslateCall> self_;  // while gRPC uses it

  absl::Mutex mutex_;
  TranslatedMessages messages_ ABSL_GUARDED_BY(mutex_);
  MessageWriter writer_ ABSL_GUARDED_BY(mutex_){*this, gate(), core_, context(),
                                                [this] { cancelled_->Cancel(); }};
};

// RecognizeCall: a Recognize call, as gRPC sees it. It reads a request when the one before was
// taken and the engine keeps up: neither a client that sends quickly nor one that does not read
// holds more than a message. Lives until gRPC is done with it and no thread is about to wake it.
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
  // Starts what can be started: a read, a write, or the end of the call.
  void Advance();

  const Gate& gate_;
  serving::Core& core_;
  grpc::CallbackServerContext& context_;
  std::shared_ptr<RecognizeCall> self_;  // while gRPC uses it
  std::shared_ptr<serving::Recognition> recognition_;

  absl::Mutex mutex_;
  grpc::ByteBuffer request_;  // of the read under way
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool at_end_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more will be read
  MessageWriter writer_ ABSL_GUARDED_BY(mutex_){*this, gate_, core_, context_,
                                                [this] { recognition_->GiveUp(); }};
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_STREAM_CALLS_H_
