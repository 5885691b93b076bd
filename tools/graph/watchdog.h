// Ends the program when a command takes too long, whatever it does: computing that looks at no
// clock included.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_WATCHDOG_H_
#define BEAMWRIGHT_TOOLS_GRAPH_WATCHDOG_H_

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace beamwright::ops {

class Watchdog {
 public:
  // Unless this is destroyed within `timeout` and a moment in which loops can still say where they
  // are, prints "beamwright-graph: <message>" to standard error and exits with 1.
  Watchdog(absl::Duration timeout, const std::string& message);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_WATCHDOG_H_
