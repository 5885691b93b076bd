// A thread that does the same work every so often.
#ifndef BEAMWRIGHT_OPS_BASE_PERIODIC_THREAD_H_
#define BEAMWRIGHT_OPS_BASE_PERIODIC_THREAD_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright {

// Make it the last member of a class whose other members the work uses.
class PeriodicThread {
 public:
  // Calls `work` after each `interval`, which counts from the end of the last call and is 1 ms at
  // least. `name`: for top and the like, at most 15 bytes, a literal.
  PeriodicThread(const char* name, absl::Duration interval, std::function<void()> work);
  // Calls `work` at once, and then each time after what it returned.
  PeriodicThread(const char* name, std::function<absl::Duration()> work);
  // Waits for a call that runs; no other follows.
  ~PeriodicThread();
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // How often to look whether `timeout` is over: eight times in it, but neither more often than
  // every 10 ms nor more seldom than every second.
  static absl::Duration IntervalFor(absl::Duration timeout);

  // Has the work done soon, whatever the interval; does not wait. Thread-safe.
  void Hurry();

 private:
  bool IsDue() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stops_ || hurries_; }
  // False if the thread ends.
  bool WaitForTurn(absl::Duration interval);

  absl::Mutex mutex_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurries_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_PERIODIC_THREAD_H_
