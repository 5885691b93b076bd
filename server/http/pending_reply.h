// PendingReply: an answer that is not there yet, for which no thread waits. A handler returns it in
// HttpReply::later; the connection takes the answer when its bell has rung.
#ifndef BEAMWRIGHT_SERVER_HTTP_PENDING_REPLY_H_
#define BEAMWRIGHT_SERVER_HTTP_PENDING_REPLY_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/http/listener.h"

namespace beamwright::http {

// Thread-safe. Shared by who rings and who answers it, in whatever order they come and go.
class Bell {
 public:
  // There is something to take.
  void Ring() {
    absl::MutexLock lock(&mutex_);
    if (wake_ != nullptr) {
      wake_();
    } else {
      has_rung_ = true;
    }
  }
  // Calls `wake` at each ring, on any thread, and at once if it has rung before.
  void Answer(std::function<void()> wake) {
    absl::MutexLock lock(&mutex_);
    wake_ = std::move(wake);
    if (has_rung_) {
      wake_();
    }
  }

 private:
  absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  bool has_rung_ ABSL_GUARDED_BY(mutex_) = false;
};

// Destroyed when no client waits any more, which cancels the call.
class PendingReply {
 public:
  virtual ~PendingReply() = default;

  const std::shared_ptr<Bell>& bell() const { return bell_; }
  // The answer, on a worker; nothing if it is not there yet.
  virtual std::optional<HttpReply> Take() = 0;
  // Every so often until then, on the listener's thread: looks whether the call is to be given up.
  virtual void Look() = 0;

 private:
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PENDING_REPLY_H_
