// LoadWatch: a model whose graphs do not come to an end must not keep the server from loading the
// others, nor from ending. While it lives, what the thread that made it computes (folded constants,
// tables, the self-check, golden requests, warm-up) is interrupted when the time is over or the
// server is stopped.
#ifndef BEAMWRIGHT_SERVER_SERVING_LOAD_WATCH_H_
#define BEAMWRIGHT_SERVER_SERVING_LOAD_WATCH_H_

#include <atomic>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ops/base/interruption.h"
#include "ops/base/periodic_thread.h"

namespace beamwright::serving {

class LoadWatch {
 public:
  // stopped: whether the server is stopping, asked again and again on another thread; may be
  // null.
  LoadWatch(absl::Duration timeout, std::function<bool()> stopped);
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  // DeadlineExceeded or Cancelled once the load is interrupted, whatever became of it.
  absl::Status Check() const;

 private:
  const absl::Duration timeout_;
  Interruption interruption_;
  const Interruption::Scope scope_{&interruption_};
  std::atomic<bool> is_late_{false};
  PeriodicThread thread_;  // last: it uses the others
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_LOAD_WATCH_H_
