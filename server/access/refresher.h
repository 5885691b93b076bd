// Refresher: looks after files that may change while the server runs.
#ifndef BEAMWRIGHT_SERVER_ACCESS_REFRESHER_H_
#define BEAMWRIGHT_SERVER_ACCESS_REFRESHER_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::access {

class Refresher {
 public:
  // Calls every one of `refresh` each `interval`, 10 ms at least, on a separate thread; an error
  // is logged when it is a new one. What they use must outlive the refresher.
  Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh);
  ~Refresher();
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;

  // Has everything looked at soon, whatever the interval; does not wait. Thread-safe.
  void Hurry();

  absl::Duration interval() const { return interval_; }

 private:
  void Run();
  bool IsDue() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || hurry_; }

  const absl::Duration interval_;
  const std::vector<std::function<absl::Status()>> refresh_;
  std::vector<std::string> last_errors_;  // the thread's own
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_REFRESHER_H_
