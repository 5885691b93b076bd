#include "server/rpc/stream_decode_call.h"

#include <utility>

#include "server/rpc/decode_call.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {

StreamDecodeCall* StreamDecodeCall::Start(serving::Decoder& decoder,
                                          grpc::CallbackServerContext& context,
                                          const grpc::ByteBuffer& request,
                                          const absl::StatusOr<access::Identity>& identity) {
  const std::shared_ptr<StreamDecodeCall> call(new StreamDecodeCall(decoder, context));
  call->self_ = call;
  absl::StatusOr<v1::StreamDecodeRequest> parsed(v1::StreamDecodeRequest{});
  absl::Status status = identity.status();
  status.Update(status.ok() ? ParseRequest(request, *parsed) : status);
  if (!status.ok()) {
    parsed = std::move(status);
  }
  serving::Caller caller;
  caller.method = serving::Method::kStreamDecode;
  caller.deadline = DeadlineOf(context);
  caller.cancelled = call->cancelled_;
  caller.context = ContextOf(context);
  if (identity.ok()) {
    caller.tenant = identity->tenant;
    caller.priority = identity->priority;
  }
  // The engine's thread has other things to do than to write.
  const auto wake = [&decoder, weak = std::weak_ptr<StreamDecodeCall>(call)] {
    decoder.Post([weak] {
      if (const std::shared_ptr<StreamDecodeCall> woken = weak.lock()) {
        woken->Advance();
      }
    });
  };
  auto stream = serving::DecodeStream::Start(decoder, std::move(parsed), caller, wake);
  {
    absl::MutexLock lock(&call->mutex_);
    call->stream_ = std::move(stream);
  }
  call->Advance();  // for what came before the stream was known here
  return call.get();
}

void StreamDecodeCall::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
  }
  if (!ok) {
    cancelled_->Cancel();  // nobody is there to read
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
  AddLoadReport(decoder_, context_);
  Finish(EndOfCall(end, context_));
}

}  // namespace beamwright::rpc
