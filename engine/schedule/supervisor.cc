#include "engine/schedule/supervisor.h"

#include <pthread.h>

#include <utility>

namespace beamwright::engine {
namespace {

// Looks without work until it sleeps: one request after the other does not wake it each time.
constexpr int kIdleLooks = 50;

}  // namespace

Supervisor::Supervisor(std::function<bool()> has_work, std::function<void()> look)
    : has_work_(std::move(has_work)), look_(std::move(look)), thread_([this] { Run(); }) {}

Supervisor::~Supervisor() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
    woken_ = true;
  }
  thread_.join();
}

void Supervisor::WorkHasCome() {
  // Either this sees that the thread sleeps, or the thread, which looks once more, sees the work.
  if (sleeps_.load()) {
    absl::MutexLock lock(&mutex_);
    woken_ = true;
  }
}

void Supervisor::Run() {
  pthread_setname_np(pthread_self(), "bw-supervisor");
  int idle_looks = 0;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (idle_looks < kIdleLooks) {
        mutex_.AwaitWithTimeout(absl::Condition(&stops_), kInterval);
      } else {
        sleeps_.store(true);
        if (!has_work_()) {
          mutex_.Await(absl::Condition(&woken_));
        }
        sleeps_.store(false);
        woken_ = false;
        idle_looks = 0;
      }
      if (stops_) {
        return;
      }
    }
    if (has_work_()) {
      idle_looks = 0;
      look_();
    } else {
      ++idle_looks;
    }
  }
}

}  // namespace beamwright::engine
