// RepositoryPoller: looks at the model folders every so often (--model-control poll).
#ifndef BEAMWRIGHT_SERVER_SERVING_REPOSITORY_POLLER_H_
#define BEAMWRIGHT_SERVER_SERVING_REPOSITORY_POLLER_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {

class RepositoryPoller {
 public:
  // Polls once per `interval`. The registry must outlive it.
  RepositoryPoller(ModelRegistry& models, absl::Duration interval)
      : thread_([this, &models, interval] {
          while (WaitForNext(interval)) {
            models.Poll();
          }
        }) {}
  // Waits for a poll that is under way.
  ~RepositoryPoller() {
    {
      absl::MutexLock lock(&mutex_);
      stop_ = true;
    }
    thread_.join();
  }
  RepositoryPoller(const RepositoryPoller&) = delete;
  RepositoryPoller& operator=(const RepositoryPoller&) = delete;

  // Has the folders looked at soon, whatever the interval; does not wait. Thread-safe.
  void Hurry() {
    absl::MutexLock lock(&mutex_);
    hurry_ = true;
  }

 private:
  // False if the poller stops.
  bool WaitForNext(absl::Duration interval) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &RepositoryPoller::IsDue), interval);
    hurry_ = false;
    return !stop_;
  }
  bool IsDue() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || hurry_; }

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_REPOSITORY_POLLER_H_
