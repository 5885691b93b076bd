// Threads: one that does the same work every so often, how long one may run before others on its
// CPU, and the checks of many locks.
#ifndef BEAMWRIGHT_OPS_BASE_THREADS_H_
#define BEAMWRIGHT_OPS_BASE_THREADS_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright {

// A thread that does the same work every so often.

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

// How long a thread may run before others on its CPU get their turn.
//
// Threads that answer calls work for microseconds and are waited for; those that compute work for
// as long as there is something to compute. Where they share CPUs, a scheduler that gives both the
// same slice (3 ms) lets a message wait for several of them. Linux 6.12 and later lets a thread
// that asks for a short slice run before those with longer ones, with no larger share of the CPU;
// for that it needs no privilege. Elsewhere nothing changes. Source: sched(7), sched_setattr(2).

// Of the calling thread, and of those that it starts from now on.
void UseShortTimeSlices();
void UseUsualTimeSlices();

// While it lives, the calling thread has long slices: for work of many milliseconds, before which
// all other threads of the CPU run. Its share of a CPU that is always busy stays the same.
class LongTimeSlices {
 public:
  LongTimeSlices();
  ~LongTimeSlices();
  LongTimeSlices(const LongTimeSlices&) = delete;
  LongTimeSlices& operator=(const LongTimeSlices&) = delete;

 private:
  uint64_t before_ns_;  // 0: unknown
};

// For programs that take many locks.

// Turns off Abseil's search for deadlocks in this process. Distributions build Abseil with it, and
// then all threads meet in one lock whenever any lock is taken; gRPC takes dozens a call. Call it
// first in main.
void SkipDeadlockSearch();

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_THREADS_H_
