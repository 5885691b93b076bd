#include "server/rpc/stream_calls.h"

#include <utility>

#include "server/rpc/raw_message.h"

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

}  // namespace beamwright::rpc
