// The process: the signals that end it, and what the system lets it have.
#ifndef BEAMWRIGHT_SERVER_SERVING_PROCESS_LIMITS_H_
#define BEAMWRIGHT_SERVER_SERVING_PROCESS_LIMITS_H_

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace beamwright::serving {

// What the system lets the process have: threads, address space, files. Limits that are too low are
// said at the start, with what raises them, instead of ending the process when they are met.

// From now on an exception that nothing catches (a thread that cannot be started, memory that
// cannot be had) ends the process with a message and exit code 1 instead of SIGABRT.
void ExplainTermination();

// Whether the process can have `count` more threads at once, and 256 MiB of address space: starts
// and ends them. ResourceExhausted says how many there could be, and which limits to raise.
absl::Status CheckThreads(int count);

// Raises the soft limit of open files to the hard one, which most systems keep far lower for the
// sake of programs that use select(). How many there may be then; 0 if that is unknown.
int64_t RaiseFileLimit();

// How many of `limit` files listeners leave to probes, operators and the models' files, whatever
// callers do.
int64_t FilesKeptBack(int64_t limit);

// StopSignals: SIGTERM and SIGINT as a flag to wait for, and SIGHUP as a call to read files again.
// A thread takes them with sigwait, so no code runs inside a signal handler. It is also who ends a
// process that does not end by itself. SIGUSR1, SIGUSR2, SIGALRM and SIGPIPE, whose default is to
// end a process, are ignored.

class StopSignals {
 public:
  // Blocks the signals in this thread and all that it starts: create it before any thread. The
  // first signal is reported below; a second one ends the process at once with exit code 1. One per
  // process, never destroyed.
  static StopSignals& Install();

  // True if the signal was SIGINT, as from a terminal. After Wait.
  bool interrupted() const { return interrupted_; }
  // Whatever hangs, the process ends with kExitHangs so long after the first signal. Before it; not
  // called: never.
  void EndWithin(absl::Duration most) { most_ms_ = absl::ToInt64Milliseconds(most); }
  static constexpr int kExitHangs = 4;

  // Calls `reload` for each SIGHUP from now on, on the thread of the signals: it must not block.
  // Null: nothing is called any more when this returns. Without one SIGHUP does nothing.
  void OnReload(std::function<void()> reload);

  bool stopped() const { return stopped_.HasBeenNotified(); }
  void Wait() const { stopped_.WaitForNotification(); }

 private:
  StopSignals() = default;
  // Waits for a signal to stop; reloads meanwhile.
  int WaitForFirst(const sigset_t& set);
  void Reload();
  // For a second signal to stop: true; or, saying so, until the process must end.
  bool WaitForSecond(const sigset_t& set) const;

  bool interrupted_ = false;  // set before stopped_ is notified
  // Of EndWithin.
  std::atomic<int64_t> most_ms_{std::numeric_limits<int64_t>::max()};
  absl::Notification stopped_;
  absl::Mutex reload_mutex_;  // held while it is called
  std::function<void()> reload_ ABSL_GUARDED_BY(reload_mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_PROCESS_LIMITS_H_
