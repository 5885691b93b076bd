#include "server/rpc/recognize_call.h"

#include <functional>
#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/raw_message.h"

namespace beamwright::rpc {

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
