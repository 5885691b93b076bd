#include "client/recognize_stream.h"

#include <utility>

#include "client/errors.h"

namespace beamwright::client {

void RecognizeStream::Begin(std::shared_ptr<RecognizeStream> self,
                            v1::RecognizeService::StubInterface& stub, v1::RecognizeRequest first) {
  self_ = std::move(self);
  stub.async()->Recognize(&context_, this);
  // A write that begins after the last read must find the call alive.
  AddHold();
  StartRead(&message_);
  Send(std::move(first));
  StartCall();
}

void RecognizeStream::Send(v1::RecognizeRequest piece) {
  absl::MutexLock lock(&mutex_);
  if (done_writing_ || finished_) {
    return;
  }
  pieces_.push_back(std::move(piece));
  Advance();
}

void RecognizeStream::Finish() {
  absl::MutexLock lock(&mutex_);
  finished_ = true;
  Advance();
}

void RecognizeStream::Advance() {
  if (writing_ || done_writing_) {
    return;
  }
  if (!pieces_.empty()) {
    writing_ = true;
    StartWrite(&pieces_.front());
  } else if (finished_) {
    done_writing_ = true;
    StartWritesDone();
    RemoveHold();
  }
}

void RecognizeStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  pieces_.pop_front();
  if ((!ok || done_reading_) && !done_writing_) {  // the call has ended
    done_writing_ = true;
    pieces_.clear();
    RemoveHold();
  }
  Advance();
}

void RecognizeStream::OnReadDone(bool ok) {
  if (ok) {
    callbacks_.on_message(message_);
    StartRead(&message_);
    return;
  }
  absl::MutexLock lock(&mutex_);
  done_reading_ = true;
  if (!writing_ && !done_writing_) {  // no further piece will be written
    done_writing_ = true;
    RemoveHold();
  }
}

void RecognizeStream::OnDone(const grpc::Status& status) {
  callbacks_.on_end(FromGrpcStatus(status));
  self_ = nullptr;
}

}  // namespace beamwright::client
