// Plain data about who asks and what becomes of a request: tenants and priorities, how a caller
// gives a request up, when the engine did what, and what it has to do at the moment.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_TENANT_H_
#define BEAMWRIGHT_ENGINE_REQUEST_TENANT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

// Tenant: a caller that shares the engine with others, and how much of it is theirs; priorities.

// Unset limits do not bind. Two objects of the same name are the same tenant; the later one's
// limits hold.
struct Tenant {
  std::string name;
  // Share of the engine while several tenants wait, relative to the others'.
  double weight = 1;
  // Sources a second in the long run, and at once after a pause.
  double rate = std::numeric_limits<double>::infinity();
  double burst = std::numeric_limits<double>::infinity();
  // At once.
  int max_running = std::numeric_limits<int>::max();  // sources
  int max_rows = std::numeric_limits<int>::max();     // hypotheses of the sources that run
  int max_waiting = std::numeric_limits<int>::max();  // sources
};

using TenantPtr = std::shared_ptr<const Tenant>;

// What a tenant has in the engine at a moment.
struct TenantLoad {
  std::string name;  // empty: everybody without a name
  int waiting = 0;
  int running = 0;
  int running_rows = 0;
  double waiting_cost = 0;  // rows times expected steps
};

// Of what waits of one tenant, a higher priority goes first most of the time; none ever starves.
inline constexpr int kHighestPriority = 1;
inline constexpr int kNormalPriority = 2;
inline constexpr int kLowestPriority = 3;

// CancelFlag: how a caller gives a request up, and when it did, so that it can be measured how long
// the request's rows were held after that.

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

// Timeline: when the engine did what for one source, for those who trace calls.

// Times that have not come are in the infinite past.
struct Timeline {
  absl::Time accepted = absl::InfinitePast();  // by the queue
  absl::Time started = absl::InfinitePast();   // from here on it is encoded
  absl::Time encoded = absl::InfinitePast();   // from here on it is searched
  absl::Time searched = absl::InfinitePast();  // from here on the answer is written, text included
  absl::Time written = absl::InfinitePast();
  int beam_size = 0;
  int num_steps = 0;

  // Every kStepsPerMark-th step of the search, the first kMostMarks of them.
  struct Mark {
    absl::Time at;
    int steps = 0;  // that were made by then
  };
  static constexpr int kStepsPerMark = 8;
  static constexpr size_t kMostMarks = 64;
  std::vector<Mark> marks;

  // After each step.
  void Step() {
    if (++num_steps % kStepsPerMark == 0 && marks.size() < kMostMarks) {
      marks.push_back({SteadyNow(), num_steps});
    }
  }
};

// What an engine has to do at the moment.

struct MemoryLoad {
  // Queued requests that others pass because they wait for bytes: their number, how long the first
  // of them has waited, and how many bytes it needs.
  int waiting = 0;
  absl::Duration oldest_wait;
  int64_t bytes_waited_for = 0;
  // Running requests whose sources arrive while they are searched, and their bytes.
  int streams = 0;
  int64_t stream_bytes = 0;
};

struct EngineLoad {
  int waiting = 0;
  std::array<int, kLowestPriority> waiting_by_priority{};  // the highest first
  int running = 0;
  int rows = 0;
  int max_rows = 0;
  // Bytes that running requests are reckoned to hold (EngineOptions::max_bytes).
  int64_t bytes = 0;
  int64_t max_bytes = 0;
  MemoryLoad memory;
  // Of EngineOptions::prefix_cache_bytes: in use. Tokens of target prefixes so far that could have
  // been kept, and those of them that were.
  int64_t prefix_cache_bytes = 0;
  int64_t prefix_tokens = 0;
  int64_t cached_prefix_tokens = 0;
  int num_threads = 0;
  int num_streams = 0;
  // How long the first in the queue has waited; zero if the queue is empty.
  absl::Duration oldest_wait;
  // How long the engine's present turn takes: what was admitted is encoded and every model makes
  // a step. Zero while there is no work.
  absl::Duration turn;
  // For how long no stream has begun a turn or waited for work: the engine's sign of life. A
  // stream that hangs while others do not leaves it small.
  absl::Duration stalled;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_TENANT_H_
