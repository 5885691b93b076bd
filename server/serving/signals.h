// StopSignals: SIGTERM and SIGINT as a flag to wait for, and SIGHUP as a call to read files again.
// A thread takes them with sigwait, so no code runs inside a signal handler. It is also who ends a
// process that does not end by itself. SIGUSR1, SIGUSR2, SIGALRM and SIGPIPE, whose default is to
// end a process, are ignored.
#ifndef BEAMWRIGHT_SERVER_SERVING_SIGNALS_H_
#define BEAMWRIGHT_SERVER_SERVING_SIGNALS_H_

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace beamwright::serving {

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

#endif  // BEAMWRIGHT_SERVER_SERVING_SIGNALS_H_
