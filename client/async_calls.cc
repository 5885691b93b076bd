// Calls of the client that do not block a thread. AsyncCalls runs steps of unary calls and of
// streams that it reads, from a completion queue of gRPC: its thread, or the caller's in RunOne
// (SetLoop), takes an event and continues the event's call (Handle).
//
// 1. Start notes the call, which it keeps alive, and sets an alarm if the call is to be cancelled
//    after some time.
// 2. Handle: an event of the call goes to Continue, until that says that the call is over. An alarm
//    that went off cancels the call.
// 3. Over removes the call. The alarm is cancelled and gives an event, too, so that it counts as
//    outstanding until then.
//
// RecognizeStreamCall is a stream in both directions, and uses gRPC's callbacks: pieces of sound
// are written one after the other (Advance), while results arrive. A hold keeps the call from
// ending between the last read and a write.
#include "client/async_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

AsyncCalls::~AsyncCalls() {
  CancelOutstanding();
  const auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_outstanding_ == 0; };
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&idle));
  }
  queue_.Shutdown();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void AsyncCalls::Start(std::shared_ptr<Call> call, absl::Duration cancel_after) {
  if (!has_loop_) {
    StartThread();
  }
  Call* const started = call.get();
  started->step_.call = started;
  const bool has_alarm = cancel_after != absl::InfiniteDuration();
  {
    absl::MutexLock lock(&mutex_);
    num_outstanding_ += has_alarm ? 2 : 1;
    calls_.emplace(started, call);
  }
  if (has_alarm) {
    started->alarm_ = std::make_unique<grpc::Alarm>();
    started->cancel_.keep = std::move(call);
    started->alarm_->Set(&queue_, absl::ToChronoTime(absl::Now() + cancel_after),
                         &started->cancel_);
  }
  started->Begin(queue_, &started->step_);
}

void AsyncCalls::CancelOutstanding() {
  std::vector<std::shared_ptr<Call>> outstanding;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, call] : calls_) {
      outstanding.push_back(call);
    }
  }
  // Without the lock: cancelling may continue calls on this thread.
  for (const auto& call : outstanding) {
    call->context.TryCancel();
  }
}

void AsyncCalls::SetLoop(bool has_loop) {
  has_loop_ = has_loop;
  if (!has_loop) {
    StartThread();
  }
}

// A thread of our own rather than gRPC's callbacks: two threads of gRPC's share those, and each
// event wakes the other of them. It is there from the first call on: while it waits it would take
// the events of calls that are waited for elsewhere.
void AsyncCalls::StartThread() {
  std::call_once(started_, [this] {
    thread_ = std::thread([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_.Next(&tag, &ok)) {
        Handle(static_cast<Call::Event*>(tag), ok);
      }
    });
  });
}

bool AsyncCalls::RunOne(absl::Time deadline) {
  void* tag = nullptr;
  bool ok = false;
  const auto until = absl::ToChronoTime(std::max(deadline, absl::UnixEpoch()));
  if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) {
    return false;
  }
  Handle(static_cast<Call::Event*>(tag), ok);
  return true;
}

void AsyncCalls::Handle(Call::Event* event, bool ok) {
  if (event->call == nullptr) {  // an alarm: it went off, or was called off when the call was over
    std::shared_ptr<Call> call = std::move(event->keep);
    if (ok) {
      call->context.TryCancel();
    }
    call.reset();
    Release();
  } else if (!event->call->Continue(ok, event)) {
    Over(event->call);
  }
}

// The order matters: none outstanding lets the destructor go on, and by then the call must be gone.
void AsyncCalls::Over(Call* finished) {
  if (finished->alarm_ != nullptr) {
    finished->alarm_->Cancel();
  }
  std::shared_ptr<Call> call;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = calls_.find(finished);
    call = std::move(it->second);
    calls_.erase(it);
  }
  call.reset();
  Release();
}

void AsyncCalls::Release() {
  absl::MutexLock lock(&mutex_);
  --num_outstanding_;
}

void RecognizeStreamCall::Begin(std::shared_ptr<RecognizeStreamCall> self,
                                v1::RecognizeService::StubInterface& stub,
                                v1::RecognizeRequest first) {
  self_ = std::move(self);
  stub.async()->Recognize(&context_, this);
  // A write that begins after the last read must find the call alive.
  AddHold();
  StartRead(&message_);
  Send(std::move(first));
  StartCall();
}

void RecognizeStreamCall::Send(v1::RecognizeRequest piece) {
  absl::MutexLock lock(&mutex_);
  if (done_writing_ || finished_) {
    return;
  }
  pieces_.push_back(std::move(piece));
  Advance();
}

void RecognizeStreamCall::Finish() {
  absl::MutexLock lock(&mutex_);
  finished_ = true;
  Advance();
}

void RecognizeStreamCall::Advance() {
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

void RecognizeStreamCall::OnWriteDone(bool ok) {
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

void RecognizeStreamCall::OnReadDone(bool ok) {
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

void RecognizeStreamCall::OnDone(const grpc::Status& status) {
  callbacks_.on_end(FromGrpcStatus(status));
  self_ = nullptr;
}

}  // namespace beamwright::client
