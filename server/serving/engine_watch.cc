#include "server/serving/engine_watch.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace beamwright::serving {
namespace {

constexpr absl::Duration kShortestLook = absl::Milliseconds(10);
constexpr absl::Duration kLongestLook = absl::Seconds(1);
constexpr int kLooksInTimeout = 8;

}  // namespace

EngineWatch::EngineWatch(std::function<absl::Duration()> stalled, absl::Duration longest,
                         ServingState& state)
    : stalled_(std::move(stalled)), longest_(longest), state_(state) {
  thread_ = std::thread([this] { Run(); });
}

EngineWatch::~EngineWatch() {
  stop_.Notify();
  thread_.join();
  state_.SetHangs(false);
}

void EngineWatch::Run() {
  pthread_setname_np(pthread_self(), "bw-watch");
  const absl::Duration look = std::clamp(longest_ / kLooksInTimeout, kShortestLook, kLongestLook);
  bool hung = false;
  while (!stop_.WaitForNotificationWithTimeout(look)) {
    const bool hangs = stalled_() > longest_;
    if (hangs != std::exchange(hung, hangs)) {
      if (hangs) {
        spdlog::error("the engine has work and has not come round for {} (liveness-timeout)",
                      absl::FormatDuration(longest_));
      } else {
        spdlog::info("the engine has come round again");
      }
    }
    state_.SetHangs(hangs);
  }
}

}  // namespace beamwright::serving
