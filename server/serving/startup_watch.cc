#include "server/serving/startup_watch.h"

#include <utility>

namespace beamwright::serving {

StartupWatch::StartupWatch(absl::Duration timeout, std::function<void()> too_late) {
  if (timeout > absl::ZeroDuration()) {
    thread_ = std::thread([this, timeout, too_late = std::move(too_late)] {
      if (!started_.WaitForNotificationWithTimeout(timeout)) {
        too_late();
      }
    });
  }
}

StartupWatch::~StartupWatch() {
  if (!started_.HasBeenNotified()) {
    started_.Notify();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace beamwright::serving
