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
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "include/beamwright/client.h"
#include "ops/base/status.h"

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

// Decodes many sources through a client with several calls in flight (DecodeBulk), and gives the
// answers in the order of the sources.
//
// 1. StartBatch takes sources until a batch has enough of them, or enough bytes, and sends it. A
//    source that could not be read takes its place in the order, but is not sent.
// 2. AnswerOldest waits for the oldest batch and passes its answers to the sink. A call that failed
//    is an error of each of its sources; an error that every call would have (FailsEveryCall) ends
//    all.
//
// The destructor waits for the calls in flight, since their callbacks write into the batches.
namespace {

struct Batch {
  std::vector<BulkSource> sources;
  int num_sent = 0;  // sources that could be read
  absl::Notification done;
  absl::StatusOr<v1::DecodeResponse> response = v1::DecodeResponse();
};

v1::Result ErrorResult(const absl::Status& status) {
  v1::Result result;
  result.mutable_error()->set_code(static_cast<int>(status.code()));
  result.mutable_error()->set_message(std::string(status.message()));
  return result;
}

class Bulk {
 public:
  Bulk(Client& client, const BulkOptions& options, NextSource next, AnswerSink sink)
      : client_(client), options_(options), next_(next), sink_(sink) {}

  // The callbacks write into the batches.
  ~Bulk() {
    for (const auto& batch : batches_) {
      batch->done.WaitForNotification();
    }
  }

  absl::Status Run() {
    while (!at_end_ || !batches_.empty()) {
      if (!at_end_ && std::ssize(batches_) < options_.outstanding) {
        StartBatch();
        continue;
      }
      BW_RETURN_IF_ERROR(AnswerOldest());
    }
    return absl::OkStatus();
  }

 private:
  void StartBatch() {
    auto batch = std::make_unique<Batch>();
    v1::DecodeRequest request = options_.request;
    request.clear_sources();
    int64_t num_bytes = 0;
    while (std::ssize(batch->sources) < options_.batch && num_bytes < options_.batch_bytes) {
      BulkSource source;
      if (!next_(source)) {
        at_end_ = true;
        break;
      }
      if (source.status.ok()) {
        *request.add_sources() = source.source;
        num_bytes += static_cast<int64_t>(source.source.ByteSizeLong());
      }
      batch->sources.push_back(std::move(source));
    }
    batch->num_sent = request.sources_size();
    Batch* started = batches_.emplace_back(std::move(batch)).get();
    if (started->num_sent == 0) {
      started->done.Notify();
      return;
    }
    client_.DecodeAsync(std::move(request), absl::Now() + options_.timeout,
                        [started](absl::StatusOr<v1::DecodeResponse> response) {
                          started->response = std::move(response);
                          started->done.Notify();
                        });
  }

  absl::Status AnswerOldest() {
    Batch& batch = *batches_.front();
    batch.done.WaitForNotification();
    const bool ends_all = FailsEveryCall(batch.response.status());
    if (!ends_all) {
      batch.response = WithErrorsInResults(std::move(batch.response), batch.num_sent);
    }
    absl::Status status = batch.response.status();
    if (status.ok() && batch.response->results_size() != batch.num_sent) {
      status = absl::InternalError(absl::StrCat("the server gave ", batch.response->results_size(),
                                                " results for ", batch.num_sent, " sources"));
    }
    if (ends_all) {
      return status;
    }
    const v1::DecodeResponse no_response;
    int num_answered = 0;
    for (const BulkSource& source : batch.sources) {
      v1::Result result;
      if (!source.status.ok()) {
        result = ErrorResult(source.status);
      } else if (!status.ok()) {
        result = ErrorResult(status);
      } else {
        result = std::move(*batch.response->mutable_results(num_answered++));
      }
      sink_({index_++, source, result, status.ok() ? *batch.response : no_response});
    }
    batches_.pop_front();
    return absl::OkStatus();
  }

  Client& client_;
  const BulkOptions& options_;
  NextSource next_;
  AnswerSink sink_;
  std::deque<std::unique_ptr<Batch>> batches_;  // in the order of their sources
  int64_t index_ = 0;
  bool at_end_ = false;
};

}  // namespace

absl::Status DecodeBulk(Client& client, const BulkOptions& options, NextSource next,
                        AnswerSink sink) {
  if (options.batch < 1 || options.batch_bytes < 1 || options.outstanding < 1) {
    return Invalid("bulk options: batch is ", options.batch, ", batch_bytes ", options.batch_bytes,
                   ", outstanding ", options.outstanding, "; each must be at least 1");
  }
  return Bulk(client, options, next, sink).Run();
}

}  // namespace beamwright::client
