#include "server/serving/watches.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "ops/base/steady_time.h"
#include "server/serving/recognition.h"

namespace beamwright::serving {

void StreamWatch::SetIdle(absl::Duration idle) {
  absl::MutexLock lock(&mutex_);
  idle_ = idle == absl::ZeroDuration() ? absl::InfiniteDuration() : idle;
}

absl::Duration StreamWatch::idle() const {
  absl::MutexLock lock(&mutex_);
  return idle_;
}

void StreamWatch::Add(std::weak_ptr<Recognition> stream) {
  absl::MutexLock lock(&mutex_);
  if (idle_ == absl::InfiniteDuration()) {
    return;
  }
  streams_.push_back(std::move(stream));
  if (!thread_.has_value()) {
    thread_.emplace("bw-streams", PeriodicThread::IntervalFor(idle_),
                    [this] { Look(SteadyNow()); });
  }
}

void StreamWatch::Look(absl::Time now) {
  std::vector<std::weak_ptr<Recognition>> streams;
  absl::Duration idle;
  {
    absl::MutexLock lock(&mutex_);
    streams.swap(streams_);
    idle = idle_;
  }
  // Without the lock: a stream that ends calls back.
  streams.erase(std::remove_if(streams.begin(), streams.end(),
                               [idle, now](const std::weak_ptr<Recognition>& weak) {
                                 const std::shared_ptr<Recognition> stream = weak.lock();
                                 return stream == nullptr || stream->EndIfIdle(now, idle);
                               }),
                streams.end());
  absl::MutexLock lock(&mutex_);
  streams_.insert(streams_.end(), streams.begin(), streams.end());
}

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
