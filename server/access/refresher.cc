#include "server/access/refresher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace beamwright::access {
namespace {

// Or the thread would never sleep.
constexpr absl::Duration kShortest = absl::Milliseconds(10);

}  // namespace

Refresher::Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh)
    : interval_(std::max(interval, kShortest)),
      refresh_(std::move(refresh)),
      last_errors_(refresh_.size()),
      thread_([this] { Run(); }) {}

Refresher::~Refresher() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Refresher::Hurry() {
  absl::MutexLock lock(&mutex_);
  hurry_ = true;
}

void Refresher::Run() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &Refresher::IsDue), interval_);
      if (stop_) {
        return;
      }
      hurry_ = false;
    }
    for (size_t i = 0; i < refresh_.size(); ++i) {
      const absl::Status status = refresh_[i]();
      std::string error(status.message());
      if (error != last_errors_[i] && !error.empty()) {
        spdlog::error("{}; what was read before holds on", error);
      }
      last_errors_[i] = std::move(error);
    }
  }
}

}  // namespace beamwright::access
