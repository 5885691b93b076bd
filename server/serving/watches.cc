#include "server/serving/watches.h"

#include <spdlog/spdlog.h>

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

EngineWatch::EngineWatch(std::function<absl::Duration()> stalled, absl::Duration longest,
                         ServingState& state)
    : stalled_(std::move(stalled)), longest_(longest), state_(state) {
  thread_.emplace("bw-watch", PeriodicThread::IntervalFor(longest_), [this] { Look(); });
}

EngineWatch::~EngineWatch() {
  thread_.reset();
  state_.SetHangs(false);
}

void EngineWatch::Look() {
  const bool hangs = stalled_() > longest_;
  if (hangs != std::exchange(hung_, hangs)) {
    if (hangs) {
      spdlog::error("the engine has work and has not come round for {} (liveness-timeout)",
                    absl::FormatDuration(longest_));
    } else {
      spdlog::info("the engine has come round again");
    }
  }
  state_.SetHangs(hangs);
}

}  // namespace beamwright::serving
