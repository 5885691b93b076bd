// ReplyThread: where finished calls are serialised and handed to gRPC, so that the engine's thread
// goes on with its next step instead, if it has one to make.
#ifndef BEAMWRIGHT_SERVER_SERVING_REPLY_THREAD_H_
#define BEAMWRIGHT_SERVER_SERVING_REPLY_THREAD_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::serving {

// Thread-safe.
class ReplyThread {
 public:
  ReplyThread();
  // Runs what was posted.
  ~ReplyThread();
  ReplyThread(const ReplyThread&) = delete;
  ReplyThread& operator=(const ReplyThread&) = delete;

  // Runs `reply` soon, in the order of posting.
  void Post(std::function<void()> reply);

 private:
  void Run();
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !replies_.empty(); }

  absl::Mutex mutex_;
  std::vector<std::function<void()>> replies_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_REPLY_THREAD_H_
