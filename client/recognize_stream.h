// RecognizeStream: a source that is recognised while it comes, without a separate thread: for
// those who have many, or a loop. Client::Recognize is simpler where a thread may wait.
#ifndef BEAMWRIGHT_CLIENT_RECOGNIZE_STREAM_H_
#define BEAMWRIGHT_CLIENT_RECOGNIZE_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "beamwright/v1/recognize.grpc.pb.h"

namespace beamwright::client {

// Thread-safe. What is sent waits, without a limit, for the server to read it: who sends sound as
// it is spoken needs none.
class RecognizeStream final
    : public grpc::ClientBidiReactor<v1::RecognizeRequest, v1::RecognizeResponse> {
 public:
  // On gRPC's threads; they must not block. on_end is the last.
  struct Callbacks {
    std::function<void(const v1::RecognizeResponse&)> on_message;
    std::function<void(absl::Status)> on_end;
  };

  // The next piece. Nothing happens once the call has ended.
  void Send(v1::RecognizeRequest piece);
  // The source is complete.
  void Finish();
  void Cancel() { context_.TryCancel(); }

 private:
  friend class Client;
  explicit RecognizeStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  // `self` keeps it alive until the call has ended; `first` has the configuration.
  void Begin(std::shared_ptr<RecognizeStream> self, v1::RecognizeService::StubInterface& stub,
             v1::RecognizeRequest first);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  // Starts what is to be written next.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Callbacks callbacks_;
  grpc::ClientContext context_;
  v1::RecognizeResponse message_;
  std::shared_ptr<RecognizeStream> self_;

  absl::Mutex mutex_;
  std::deque<v1::RecognizeRequest> pieces_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_reading_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_RECOGNIZE_STREAM_H_
