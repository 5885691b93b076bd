#include "server/rpc/stream_decode_call.h"

#include <utility>

#include "server/rpc/rpc_status.h"

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

}  // namespace beamwright::rpc
