// Calls in flight without a thread each: on a completion queue, and recognitions on gRPC's threads.
// Private to the client library and the load generator.
#ifndef BEAMWRIGHT_CLIENT_ASYNC_CALLS_H_
#define BEAMWRIGHT_CLIENT_ASYNC_CALLS_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "client/channels.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

// Thread-safe.
class AsyncCalls {
 public:
  // A call as a row of steps, each of which ends on the queue with the same tag.
  class Call {
   public:
    virtual ~Call() = default;

    grpc::ClientContext context;

   private:
    friend class AsyncCalls;
    struct Event {
      Call* call = nullptr;
      std::shared_ptr<Call> keep;  // of the alarm: it may outlive the call
    };

    // Begins the first step. The call may be over, and gone, before this returns.
    virtual void Begin(grpc::CompletionQueue& queue, void* tag) = 0;
    // The last step has ended. True: another one was begun. False: the call is over, and the caller
    // has its answer.
    virtual bool Continue(bool ok, void* tag) = 0;

    Event step_, cancel_;
    std::unique_ptr<grpc::Alarm> alarm_;  // cancels the call
  };

  AsyncCalls() = default;
  // Cancels the calls that are outstanding and waits until they are over.
  ~AsyncCalls();
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;

  // cancel_after: the call is cancelled if it is not over by then; infinite: it is not.
  void Start(std::shared_ptr<Call> call, absl::Duration cancel_after);
  void CancelOutstanding();

  // With a loop, no thread of ours is started: its owner calls RunOne.
  void SetLoop(bool has_loop);
  // Waits for the end of a step, until the deadline (gRPC rounds it up to milliseconds; the past:
  // does not wait), and continues its call. False: none came.
  bool RunOne(absl::Time deadline);

 private:
  void StartThread();
  void Handle(Call::Event* event, bool ok);
  void Over(Call* finished);
  void Release();

  absl::Mutex mutex_;
  // Shared with those who cancel only.
  absl::flat_hash_map<Call*, std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
  // Counts a call until its caller has the answer and its memory is freed, and an alarm until it
  // has come.
  int64_t num_outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::CompletionQueue queue_;
  std::atomic<bool> has_loop_{false};
  std::once_flag started_;
  std::thread thread_;  // last: it uses the others
};

// A request, an answer.
template <typename Request, typename Response>
class UnaryCall final : public AsyncCalls::Call {
 public:
  using Reader = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>>;

  Request request;
  // Makes the call, of a stub.
  std::function<Reader(grpc::ClientContext*, const Request&, grpc::CompletionQueue*)> prepare;
  std::function<void(absl::StatusOr<Response>)> callback;

 private:
  void Begin(grpc::CompletionQueue& queue, void* tag) override {
    reader_ = prepare(&context, request, &queue);
    reader_->StartCall();
    reader_->Finish(&response_, &status_, tag);
  }
  bool Continue(bool /*ok*/, void* /*tag*/) override {
    if (status_.ok()) {
      callback(std::move(response_));
    } else {
      callback(FromGrpcStatus(status_));
    }
    return false;
  }

  Response response_;
  grpc::Status status_;
  Reader reader_;
};

// A recognition on gRPC's callback API.
class RecognizeStreamCall final
    : public RecognizeStream,
      private grpc::ClientBidiReactor<v1::RecognizeRequest, v1::RecognizeResponse> {
 public:
  // On gRPC's threads; they must not block. on_end is the last.
  struct Callbacks {
    std::function<void(const v1::RecognizeResponse&)> on_message;
    std::function<void(absl::Status)> on_end;
  };

  explicit RecognizeStreamCall(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  // `self` keeps it alive until the call has ended; `first` has the configuration.
  void Begin(std::shared_ptr<RecognizeStreamCall> self, v1::RecognizeService::StubInterface& stub,
             v1::RecognizeRequest first);

  grpc::ClientContext& context() { return context_; }

  void Send(v1::RecognizeRequest piece) override;
  void Finish() override;
  void Cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  // Starts what is to be written next.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Callbacks callbacks_;
  grpc::ClientContext context_;
  v1::RecognizeResponse message_;
  std::shared_ptr<RecognizeStreamCall> self_;

  absl::Mutex mutex_;
  std::deque<v1::RecognizeRequest> pieces_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_reading_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_ASYNC_CALLS_H_
