#include "server/rpc/stream_calls.h"

#include <functional>
#include <utility>

namespace beamwright::rpc {

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
  serving::Caller caller;
  caller.method = serving::Method::kStreamDecode;
  caller.deadline = deadline_;
  caller.cancelled = cancelled_;
  caller.context = ContextOf(context());
  caller.tenant = identity().tenant;
  caller.connection = ConnectionOf(context());
  caller.priority = identity().priority;
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
    writing_ = false;
  }
  if (!ok) {
    cancelled_->Cancel();  // the client is gone
  }
  Advance();
}

void StreamDecodeCall::Advance() {
  absl::MutexLock lock(&mutex_);
  if (writing_ || finished_ || stream_ == nullptr) {
    return;
  }
  v1::StreamDecodeResponse message;
  absl::Status end;
  switch (stream_->Take(message, end)) {
    case serving::DecodeStream::Taken::kNothing:
      return;
    case serving::DecodeStream::Taken::kMessage:
      end = SerializeReply(message, bytes_);
      if (end.ok()) {
        writing_ = true;
        StartWrite(&bytes_);
        return;
      }
      cancelled_->Cancel();
      break;
    case serving::DecodeStream::Taken::kEnd:
      break;
  }
  finished_ = true;
  AddLoadReport(core_, context());
  Finish(EndOfCall(end, context()));
}

namespace {

// Messages are joined while they are smaller: clients take up to 4 MiB.
constexpr size_t kJoinedBytes = size_t{256} << 10;

}  // namespace

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
  serving::Caller caller;
  caller.method = serving::Method::kStreamTranslate;
  caller.deadline = deadline_;
  caller.cancelled = cancelled_;
  caller.context = ContextOf(context());
  caller.tenant = identity().tenant;
  caller.connection = ConnectionOf(context());
  caller.priority = identity().priority;
  translator_.TranslateInParts(
      std::move(request), caller,
      [self](v1::TranslateResponse part) { self->Add(std::move(part)); },
      [self](absl::StatusOr<v1::TranslateResponse> last) {
        if (last.ok()) {
          self->Add(*std::move(last));
        }
        self->End(last.status());
      });
}

void StreamTranslateCall::Add(v1::TranslateResponse message) {
  {
    absl::MutexLock lock(&mutex_);
    const bool joins = !messages_.empty() && message.document().empty() &&
                       messages_.back().ByteSizeLong() + message.ByteSizeLong() <= kJoinedBytes;
    if (joins) {
      messages_.back().MergeFrom(message);
    } else {
      messages_.push_back(std::move(message));
    }
  }
  Advance();
}

void StreamTranslateCall::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    end_ = status;
  }
  Advance();
}

void StreamTranslateCall::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
  }
  if (!ok) {
    cancelled_->Cancel();  // the client is gone
  }
  Advance();
}

void StreamTranslateCall::Advance() {
  absl::MutexLock lock(&mutex_);
  if (writing_ || finished_) {
    return;
  }
  absl::Status end;
  if (failure_.ok() && !messages_.empty()) {
    end = SerializeReply(messages_.front(), bytes_);
    messages_.pop_front();
    if (end.ok()) {
      writing_ = true;
      StartWrite(&bytes_);
      return;
    }
    cancelled_->Cancel();
    failure_ = end;
    messages_.clear();
  }
  if (!end_.has_value()) {
    return;  // the translation goes on
  }
  finished_ = true;
  end = failure_.ok() ? *end_ : failure_;
  AddLoadReport(core_, context());
  Finish(EndOfCall(end, context()));
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
    call->finished_ = true;
    AddLoadReport(core, context);
    call->Finish(EndOfCall(identity.status(), context));
  }
  return call.get();
}

void RecognizeCall::Begin(const access::Identity& identity) {
  serving::Caller caller{serving::Method::kRecognize, DeadlineOf(context_)};
  caller.context = ContextOf(context_);
  caller.tenant = identity.tenant;
  caller.connection = ConnectionOf(context_);
  caller.priority = identity.priority;
  recognition_ = serving::Recognition::Make(core_, std::move(caller), Waker(), Waker());
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
    writing_ = false;
  }
  if (!ok) {
    recognition_->GiveUp();  // the client is gone
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
  if (finished_) {
    return;
  }
  if (!reading_ && !at_end_ && !recognition_->is_full()) {
    reading_ = true;
    ++gate_.num_reading();
    StartRead(&request_);
  }
  if (writing_) {
    return;
  }
  v1::RecognizeResponse message;
  absl::Status end;
  switch (recognition_->Take(message, end)) {
    case serving::Recognition::Taken::kNothing:
      return;
    case serving::Recognition::Taken::kMessage:
      end = SerializeReply(message, reply_);
      if (end.ok()) {
        writing_ = true;
        StartWrite(&reply_);
        return;
      }
      recognition_->GiveUp();
      break;
    case serving::Recognition::Taken::kEnd:
      break;
  }
  finished_ = true;
  AddLoadReport(core_, context_);
  Finish(EndOfCall(end, context_));
}

}  // namespace beamwright::rpc
