#include "ops/base/periodic_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace beamwright {

PeriodicThread::PeriodicThread(const char* name, absl::Duration interval,
                               std::function<void()> work)
    : thread_([this, name, interval = std::max(interval, absl::Milliseconds(1)),
               work = std::move(work)] {
        pthread_setname_np(pthread_self(), name);
        while (WaitForTurn(interval)) {
          work();
        }
      }) {}

PeriodicThread::PeriodicThread(const char* name, std::function<absl::Duration()> work)
    : thread_([this, name, work = std::move(work)] {
        pthread_setname_np(pthread_self(), name);
        while (WaitForTurn(work())) {
        }
      }) {}

PeriodicThread::~PeriodicThread() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
  }
  thread_.join();
}

absl::Duration PeriodicThread::IntervalFor(absl::Duration timeout) {
  return std::clamp(timeout / 8, absl::Milliseconds(10), absl::Seconds(1));
}

void PeriodicThread::Hurry() {
  absl::MutexLock lock(&mutex_);
  hurries_ = true;
}

bool PeriodicThread::WaitForTurn(absl::Duration interval) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &PeriodicThread::IsDue), interval);
  hurries_ = false;
  return !stops_;
}

}  // namespace beamwright
