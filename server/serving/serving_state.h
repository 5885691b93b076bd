// ServingState: what the server tells about itself, and the calls that it still owes an answer.
// Every protocol asks it before it takes a call, and every probe answers from it.
#ifndef BEAMWRIGHT_SERVER_SERVING_SERVING_STATE_H_
#define BEAMWRIGHT_SERVER_SERVING_SERVING_STATE_H_

#include <atomic>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::serving {

enum class Phase {
  kLoading,   // models load; calls are refused
  kServing,   // ready
  kLeaving,   // not ready any more, so that balancers look elsewhere; calls are still answered
  kRefusing,  // what was accepted is answered, new calls are refused
  kEnding,    // what was accepted is cancelled
};

// What calls get that come too late: Unavailable.
absl::Status ShuttingDown();
// What connections get that are more than a listener takes: Unavailable, try again in a second.
absl::Status TooManyConnections();

// Thread-safe.
class ServingState {
 public:
  Phase phase() const { return phase_; }
  void Enter(Phase phase) { phase_ = phase; }
  // Whether a new client would be served.
  bool ready() const { return phase_ == Phase::kServing && able_; }
  // Whether any model can serve (serving/availability.h).
  void SetAble(bool able) { able_ = able; }

  // Unavailable, saying why, if no call may be taken.
  absl::Status CheckAccepting() const;

  // A call that counts as owed an answer while this lives.
  class OpenCall {
   public:
    explicit OpenCall(ServingState& state);
    ~OpenCall();
    OpenCall(const OpenCall&) = delete;
    OpenCall& operator=(const OpenCall&) = delete;

   private:
    ServingState& state_;
  };
  // True when no call is open; false if `timeout` came first.
  bool WaitUntilAnswered(absl::Duration timeout);
  // Returns when no call has come or gone for `quiet`, or after `timeout`.
  void WaitUntilQuiet(absl::Duration quiet, absl::Duration timeout);

  // From now on calls that are refused wait for their answer, so that clients which make one call
  // after the other fall silent.
  void HoldRefusals();
  // Takes the answer to a refused call if refusals are held; else the caller answers.
  bool Hold(std::function<void()> answer);
  // Answers what is held; from now on nothing is.
  void ReleaseRefusals();

 private:
  bool NoCalls() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_calls_ == 0; }

  std::atomic<Phase> phase_{Phase::kLoading};
  std::atomic<bool> able_{true};
  absl::Mutex mutex_;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_call_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SERVING_STATE_H_
