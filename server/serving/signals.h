// StopSignals: SIGTERM and SIGINT as a flag to wait for. A thread takes them with sigwait, so no
// code runs inside a signal handler.
#ifndef BEAMWRIGHT_SERVER_SERVING_SIGNALS_H_
#define BEAMWRIGHT_SERVER_SERVING_SIGNALS_H_

#include "absl/synchronization/notification.h"

namespace beamwright::serving {

class StopSignals {
 public:
  // Blocks the signals in this thread and all that it starts: create it before any thread. The
  // first signal is told below; a second one ends the process at once with exit code 1. One per
  // process, never destroyed.
  static StopSignals& Install();

  // True if the signal was SIGINT, as from a terminal. After Wait.
  bool interrupted() const { return interrupted_; }
  bool stopped() const { return stopped_.HasBeenNotified(); }
  void Wait() const { stopped_.WaitForNotification(); }

 private:
  StopSignals() = default;

  bool interrupted_ = false;  // set before stopped_ is told
  absl::Notification stopped_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SIGNALS_H_
