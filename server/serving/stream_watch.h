// StreamWatch: ends Recognize calls of which nothing is heard: a stream holds memory of the engine
// for as long as it is open, and a client that has gone without a word would hold it for ever. All
// protocols are watched, because each stream is a Recognition, which adds itself to its core's.
#ifndef BEAMWRIGHT_SERVER_SERVING_STREAM_WATCH_H_
#define BEAMWRIGHT_SERVER_SERVING_STREAM_WATCH_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ops/base/threads.h"

namespace beamwright::serving {

class Recognition;

// Thread-safe.
class StreamWatch {
 public:
  static constexpr absl::Duration kDefaultIdle = absl::Minutes(1);

  // No stream ends until SetIdle.
  StreamWatch() = default;
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // A stream ends when its client has sent nothing for `idle`; zero: never. Before the first
  // stream.
  void SetIdle(absl::Duration idle);
  // Infinite: no stream ends for that.
  absl::Duration idle() const;
  void Add(std::weak_ptr<Recognition> stream);
  // Ends the streams that are idle at `now`, by SteadyNow. The watch's thread calls it now and
  // then.
  void Look(absl::Time now);

 private:
  mutable absl::Mutex mutex_;
  absl::Duration idle_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::vector<std::weak_ptr<Recognition>> streams_ ABSL_GUARDED_BY(mutex_);
  // From the first stream on. Last: it uses the others.
  std::optional<PeriodicThread> thread_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_STREAM_WATCH_H_
