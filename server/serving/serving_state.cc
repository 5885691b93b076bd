// The phases of a server, from loading its models to its end, and what follows from them: health
// (HealthOf), refusals with their reasons, and waiting at shutdown.
//
// At shutdown WaitUntilAnswered waits for open calls, and WaitUntilQuiet for a time without new
// ones, since a client that was answered may call again. Refusals may be held (Hold) and are sent
// together (ReleaseRefusals).
#include "server/serving/serving_state.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "engine/status/fault.h"
#include "ops/base/steady_time.h"

namespace beamwright::serving {

Health HealthOf(Phase phase, bool any_able, bool hangs) {
  Health health;
  health.started = phase != Phase::kLoading;
  health.live = !hangs;
  health.tells = phase == Phase::kServing;
  health.ready = phase == Phase::kServing && any_able && !hangs;
  if (hangs) {
    health.reason = "the engine hangs: it has work and has not come round for the liveness-timeout";
  } else if (phase == Phase::kLoading) {
    health.reason = "loading models";
  } else if (phase != Phase::kServing) {
    health.reason = "shutting down";
  } else if (!any_able) {
    health.reason = "no model can serve";
  }
  return health;
}

absl::Status ShuttingDown() {
  return status::WithReason(absl::UnavailableError("the server is shutting down"),
                            status::reason::kShuttingDown);
}

absl::Status TooManyConnections() {
  return status::WithRetryAfter(
      status::WithReason(absl::UnavailableError("too many connections; try again"),
                         status::reason::kTooManyConnections),
      absl::Seconds(1));
}

absl::Status MemoryRunsShort() {
  return status::WithRetryAfter(
      status::WithReason(absl::ResourceExhaustedError(
                             "the server has no memory for the call at the moment; try again"),
                         status::reason::kOutOfMemory),
      absl::Seconds(1));
}

void ServingState::Enter(Phase phase) {
  phase_ = phase;
  Tell();
}

void ServingState::SetHangs(bool hangs) {
  if (hangs_.exchange(hangs) != hangs) {
    Tell();
  }
}

void ServingState::Observe(std::function<void()> observer) {
  absl::MutexLock lock(&observer_mutex_);
  observer_ = std::move(observer);
}

void ServingState::Tell() {
  absl::MutexLock lock(&observer_mutex_);
  if (observer_ != nullptr) {
    observer_();
  }
}

absl::Status ServingState::CheckLoaded() const {
  if (phase_ != Phase::kLoading) {
    return absl::OkStatus();
  }
  return status::WithReason(absl::UnavailableError("the server is loading its models"),
                            status::reason::kLoading);
}

absl::Status ServingState::CheckAccepting() const {
  switch (phase_) {
    case Phase::kLoading:
      return CheckLoaded();
    case Phase::kRefusing:
    case Phase::kEnding:
      return ShuttingDown();
    default:
      return absl::OkStatus();
  }
}

ServingState::OpenCall::OpenCall(ServingState& state) : state_(state) {
  absl::MutexLock lock(&state_.mutex_);
  ++state_.num_calls_;
  state_.last_call_ = SteadyNow();
}

ServingState::OpenCall::~OpenCall() {
  absl::MutexLock lock(&state_.mutex_);
  --state_.num_calls_;
  // Who is answered now may call again in a moment.
  state_.last_call_ = SteadyNow();
}

bool ServingState::WaitUntilAnswered(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &ServingState::NoCalls), timeout);
}

void ServingState::WaitUntilQuiet(absl::Duration quiet, absl::Duration timeout) {
  const absl::Time end = SteadyNow() + timeout;
  for (;;) {
    absl::Time until;
    {
      absl::MutexLock lock(&mutex_);
      until = std::min(last_call_ + quiet, end);
    }
    if (until <= SteadyNow()) {
      return;
    }
    absl::SleepFor(until - SteadyNow());
  }
}

void ServingState::HoldRefusals() {
  absl::MutexLock lock(&mutex_);
  holding_ = true;
}

bool ServingState::Hold(std::function<void()> answer) {
  absl::MutexLock lock(&mutex_);
  if (holding_) {
    held_.push_back(std::move(answer));
  }
  return holding_;
}

void ServingState::ReleaseRefusals() {
  std::vector<std::function<void()>> held;
  {
    absl::MutexLock lock(&mutex_);
    holding_ = false;
    held.swap(held_);
  }
  for (const std::function<void()>& answer : held) {
    answer();
  }
}

}  // namespace beamwright::serving
