// Three calls of one shape. Each is a gRPC reactor that keeps itself alive (self_) until gRPC and
// its work are done with it, and each has one function, Advance, that starts the next operation
// under the mutex: at most one write and one read are under way.
//
// 1. StreamDecodeCall: the request has come; Start hands it to serving::DecodeStream, whose `wake`
//    is called on the engine's thread and only posts an Advance to the core's replies. Advance
//    takes a message and writes it, OnWriteDone comes back to Advance, the end finishes the call.
// 2. StreamTranslateCall: the translator calls Add with each part. Parts that wait behind a write
//    are joined up to kJoinedBytes, so a slow client gets fewer and larger messages.
// 3. RecognizeCall: reads while it writes. OnReadDone gives each message to serving::Recognition;
//    Advance reads on unless that is full, which is how a client that sends too fast is held up,
//    and writes what Take gives.
//
// A client that is gone shows up as a read or a write that fails; the work behind the call is
// cancelled then, and the call ends when that has ended.
#include "server/rpc/stream_calls.h"

#include <functional>
#include <utility>

namespace beamwright::rpc {

namespace {

// Messages are joined while they are smaller: clients take up to 4 MiB.
constexpr size_t kJoinedBytes = size_t{256} << 10;

}  // namespace

void MessageWriter::OnWritten(bool is_sent) {
  state_ = State::kReady;
  unsent_.End();
  if (!is_sent) {
    stop_();
  }
}

void MessageWriter::Write(const google::protobuf::Message& message) {
  if (const absl::Status status = unsent_.Begin(message, bytes_); !status.ok()) {
    stop_();
    End(status);
    return;
  }
  state_ = State::kWriting;
  call_.StartWrite(&bytes_);
}

void MessageWriter::End(const absl::Status& status) {
  state_ = State::kEnded;
  AddLoadReport(core_, context_);
  call_.Finish(EndOfCall(status, context_));
}

StreamDecodeCall* StreamDecodeCall::Start(const Gate& gate, serving::Core& core,
                                          grpc::CallbackServerContext& context,
                                          const GuardedMethod& method) {
  const std::shared_ptr<StreamDecodeCall> call(new StreamDecodeCall(gate, core, context));
  call->self_ = call;
  call->Begin(method);
  return call.get();
}

void StreamDecodeCall::Start(absl::StatusOr<v1::StreamDecodeRequest> request) {
  // gRPC may be done with the call on another thread as soon as it has ended.
  const std::shared_ptr<StreamDecodeCall> self = self_;
  const serving::Caller caller =
      CallerOf(context(), identity(), serving::Method::kStreamDecode, deadline_, cancelled_);
  // The engine's thread has other things to do than to write.
  const auto wake = [&core = core_, weak = std::weak_ptr<StreamDecodeCall>(self_)] {
    core.replies().Post([weak] {
      if (const std::shared_ptr<StreamDecodeCall> woken = weak.lock()) {
        woken->Advance();
      }
    });
  };
  auto stream = serving::DecodeStream::Start(core_, std::move(request), caller, wake);
  {
    absl::MutexLock lock(&mutex_);
    stream_ = std::move(stream);
  }
  Advance();  // for what came before the stream was known here
}

void StreamDecodeCall::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writer_.OnWritten(ok);
  }
  Advance();
}

void StreamDecodeCall::Advance() {
  absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr) {
    writer_.Advance<v1::StreamDecodeResponse>(*stream_);
  }
}

void TranslatedMessages::Add(v1::TranslateResponse message) {
  const bool joins = !messages_.empty() && message.document().empty() &&
                     messages_.back().ByteSizeLong() + message.ByteSizeLong() <= kJoinedBytes;
  if (joins) {
    messages_.back().MergeFrom(message);
  } else {
    messages_.push_back(std::move(message));
  }
}

serving::Taken TranslatedMessages::Take(v1::TranslateResponse& message, absl::Status& end) {
  if (!messages_.empty()) {
    message = std::move(messages_.front());
    messages_.pop_front();
    return serving::Taken::kMessage;
  }
  if (!end_.has_value()) {
    return serving::Taken::kNothing;
  }
  end = *end_;
  return serving::Taken::kEnd;
}

StreamTranslateCall* StreamTranslateCall::Start(const Gate& gate, serving::Core& core,
                                                translate::Translator& translator,
                                                grpc::CallbackServerContext& context,
                                                const GuardedMethod& method) {
  const std::shared_ptr<StreamTranslateCall> call(
      new StreamTranslateCall(gate, core, translator, context));
  call->self_ = call;
  call->Begin(method);
  return call.get();
}

StreamTranslateCall::StreamTranslateCall(const Gate& gate, serving::Core& core,
                                         translate::Translator& translator,
                                         grpc::CallbackServerContext& context)
    : OneRequestCall(gate, context),
      core_(core),
      translator_(translator),
      deadline_(DeadlineOf(context)) {}

void StreamTranslateCall::Start(absl::StatusOr<v1::TranslateRequest> request) {
  // gRPC may be done with the call on another thread as soon as it has ended.
  const std::shared_ptr<StreamTranslateCall> self = self_;
  const serving::Caller caller =
      CallerOf(context(), identity(), serving::Method::kStreamTranslate, deadline_, cancelled_);
  translator_.TranslateInParts(
      std::move(request), caller,
      [self](v1::TranslateResponse part) { self->Add(std::move(part)); },
      [self](absl::StatusOr<v1::TranslateResponse> last) {
        const absl::Status status = last.status();
        if (status.ok()) {
          self->Add(*std::move(last));
        }
        self->End(status);
      });
}

void StreamTranslateCall::Add(v1::TranslateResponse message) {
  absl::MutexLock lock(&mutex_);
  if (!writer_.has_ended()) {
    messages_.Add(std::move(message));
    writer_.Advance<v1::TranslateResponse>(messages_);
  }
}

void StreamTranslateCall::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  messages_.End(status);
  writer_.Advance<v1::TranslateResponse>(messages_);
}

void StreamTranslateCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writer_.OnWritten(ok);
  writer_.Advance<v1::TranslateResponse>(messages_);
}

RecognizeCall* RecognizeCall::Start(const Gate& gate, serving::Core& core,
                                    grpc::CallbackServerContext& context,
                                    const absl::StatusOr<access::Identity>& identity) {
  const std::shared_ptr<RecognizeCall> call(new RecognizeCall(gate, core, context));
  call->self_ = call;
  if (identity.ok()) {
    call->Begin(*identity);
  } else {
    serving::Caller caller{serving::Method::kRecognize};
    caller.context = ContextOf(context);
    core.calls().Refuse(identity.status(), caller);
    absl::MutexLock lock(&call->mutex_);
    call->writer_.End(identity.status());
  }
  return call.get();
}

void RecognizeCall::Begin(const access::Identity& identity) {
  recognition_ = serving::Recognition::Make(
      core_,
      CallerOf(context_, identity, serving::Method::kRecognize, DeadlineOf(context_),
               /*cancelled=*/nullptr),
      Waker(), Waker());
  Advance();
}

std::function<void()> RecognizeCall::Waker() {
  return [&core = core_, weak = std::weak_ptr<RecognizeCall>(self_)] {
    core.replies().Post([weak] {
      if (const std::shared_ptr<RecognizeCall> woken = weak.lock()) {
        woken->Advance();
      }
    });
  };
}

void RecognizeCall::OnReadDone(bool ok) {
  --gate_.num_reading();
  grpc::ByteBuffer bytes;
  bytes.Swap(&request_);
  if (ok) {
    gate_.CountArrival(context_, bytes);
    recognition_->Add(ParseRequest<v1::RecognizeRequest>(bytes, gate_.max_message_bytes()));
  } else if (context_.IsCancelled()) {
    // The read reports it, and before OnCancel is called: it failed, and is no end of requests.
    recognition_->GiveUp();
  } else {
    recognition_->Finish();
  }
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    at_end_ = at_end_ || !ok;
  }
  Advance();
}

void RecognizeCall::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writer_.OnWritten(ok);
  }
  Advance();
}

void RecognizeCall::OnCancel() {
  if (recognition_ != nullptr) {
    recognition_->GiveUp();
  }
}

void RecognizeCall::Advance() {
  absl::MutexLock lock(&mutex_);
  if (writer_.has_ended()) {
    return;
  }
  if (!reading_ && !at_end_ && !recognition_->is_full()) {
    reading_ = true;
    ++gate_.num_reading();
    StartRead(&request_);
  }
  writer_.Advance<v1::RecognizeResponse>(*recognition_);
}

}  // namespace beamwright::rpc
