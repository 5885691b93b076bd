#include "server/serving/stream_watch.h"

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

}  // namespace beamwright::serving
