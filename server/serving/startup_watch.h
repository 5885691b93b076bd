// StartupWatch: a server that does not get ready in its time should say so and make room for
// another one, instead of sitting there half started; a supervisor sees its exit code.
#ifndef BEAMWRIGHT_SERVER_SERVING_STARTUP_WATCH_H_
#define BEAMWRIGHT_SERVER_SERVING_STARTUP_WATCH_H_

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace beamwright::serving {

class StartupWatch {
 public:
  // Calls `too_late`, once and on a separate thread, unless Started or the destructor comes
  // before `timeout` is over. Zero: never.
  StartupWatch(absl::Duration timeout, std::function<void()> too_late);
  ~StartupWatch();
  StartupWatch(const StartupWatch&) = delete;
  StartupWatch& operator=(const StartupWatch&) = delete;

  // The server is ready. Once.
  void Started() { started_.Notify(); }

 private:
  absl::Notification started_;
  std::thread thread_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_STARTUP_WATCH_H_
