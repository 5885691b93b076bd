#include "server/serving/stream_watch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/time/clock.h"
#include "server/serving/recognition.h"

namespace beamwright::serving {
namespace {

constexpr absl::Duration kShortestLook = absl::Milliseconds(10);
constexpr absl::Duration kLongestLook = absl::Seconds(1);
constexpr int kLooksInTimeout = 8;

ABSL_CONST_INIT absl::Mutex current_mutex(absl::kConstInit);
StreamWatch* current ABSL_GUARDED_BY(current_mutex) = nullptr;

}  // namespace

StreamWatch::StreamWatch(absl::Duration idle) : idle_(idle) {
  absl::MutexLock lock(&current_mutex);
  current = this;
}

StreamWatch::~StreamWatch() {
  {
    absl::MutexLock lock(&current_mutex);
    current = nullptr;
  }
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void StreamWatch::Add(std::weak_ptr<Recognition> stream) {
  absl::MutexLock lock(&current_mutex);
  if (current != nullptr) {
    current->AddStream(std::move(stream));
  }
}

absl::Duration StreamWatch::idle() {
  absl::MutexLock lock(&current_mutex);
  return current == nullptr || current->idle_ == absl::ZeroDuration() ? absl::InfiniteDuration()
                                                                      : current->idle_;
}

void StreamWatch::AddStream(std::weak_ptr<Recognition> stream) {
  if (idle_ == absl::ZeroDuration()) {
    return;
  }
  absl::MutexLock lock(&mutex_);
  streams_.push_back(std::move(stream));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { Run(); });
  }
}

void StreamWatch::Look(absl::Time now) {
  std::vector<std::weak_ptr<Recognition>> streams;
  {
    absl::MutexLock lock(&mutex_);
    streams.swap(streams_);
  }
  // Without the lock: a stream that ends calls back.
  streams.erase(std::remove_if(streams.begin(), streams.end(),
                               [this, now](const std::weak_ptr<Recognition>& weak) {
                                 const std::shared_ptr<Recognition> stream = weak.lock();
                                 return stream == nullptr || stream->EndIfIdle(now, idle_);
                               }),
                streams.end());
  absl::MutexLock lock(&mutex_);
  streams_.insert(streams_.end(), streams.begin(), streams.end());
}

void StreamWatch::Run() {
  pthread_setname_np(pthread_self(), "bw-streams");
  const absl::Duration look = std::clamp(idle_ / kLooksInTimeout, kShortestLook, kLongestLook);
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stop_), look)) {
        return;
      }
    }
    Look(absl::Now());
  }
}

}  // namespace beamwright::serving
