// Refresher: looks after files that may change while the server runs.
#ifndef BEAMWRIGHT_SERVER_ACCESS_REFRESHER_H_
#define BEAMWRIGHT_SERVER_ACCESS_REFRESHER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ops/base/threads.h"

namespace beamwright::access {

class Refresher {
 public:
  // Calls every one of `refresh` each `interval`, 10 ms at least, on a separate thread; an error
  // is logged when it is a new one. What they use must outlive the refresher.
  Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh);
  // Has everything looked at soon, whatever the interval; does not wait. Thread-safe.
  void Hurry() { thread_.Hurry(); }

  absl::Duration interval() const { return interval_; }

 private:
  void Look();

  const absl::Duration interval_;
  const std::vector<std::function<absl::Status()>> refresh_;
  std::vector<std::string> last_errors_;  // the thread's own
  PeriodicThread thread_;                 // last: it uses the others
};

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_REFRESHER_H_
