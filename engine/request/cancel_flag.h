// CancelFlag: how a caller gives a request up, and when it did, so that it can be measured how long
// the request's rows were held after that.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_CANCEL_FLAG_H_
#define BEAMWRIGHT_ENGINE_REQUEST_CANCEL_FLAG_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// Thread-safe; looked at by the engine for each running request at each step, without a lock.
class CancelFlag {
 public:
  // Once or more often; the first time counts.
  void Cancel() {
    if (!cancelled_.exchange(true)) {
      at_.store(absl::ToUnixNanos(SteadyNow()));
    }
  }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // When Cancel was called, by SteadyNow; never before the flag could be seen, so that a thread
  // that looked before this time may have missed it and one that looked after has not. `now` while
  // Cancel is under way.
  absl::Time when(absl::Time now) const {
    const int64_t at = at_.load();
    return at == 0 ? now : absl::FromUnixNanos(at);
  }

  // What became of a call that was given up. Who waits no longer than `deadline` looks as if it
  // cancelled when that has come: its transport says no more. Its clock began before the call got
  // here, so it is a little ahead.
  absl::Status Outcome(absl::Time deadline, absl::Time now) const {
    constexpr absl::Duration kAhead = absl::Milliseconds(10);
    return when(now) + kAhead >= deadline
               ? absl::DeadlineExceededError("the call was given up at its deadline")
               : absl::CancelledError("the call was cancelled");
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> at_{0};  // nanoseconds from 1970; 0: not yet
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_CANCEL_FLAG_H_
