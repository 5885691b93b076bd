// ServingState: the server's phase and health, and the calls that it still owes an answer.
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

// Health: what every probe and every health service says, of whatever protocol. It is computed here
// alone, so that they cannot disagree; docs/operations.md, 'Health', has the table, and
// tests/chaos/health_test.cc compares a server with it, state by state.
enum class Phase {
  kLoading,   // models load; calls are refused
  kServing,   // ready
  kLeaving,   // not ready any more, so that balancers look elsewhere; calls are still answered
  kRefusing,  // what was accepted is answered, new calls are refused
  kEnding,    // what was accepted is cancelled
};

struct Health {
  // The models are loaded. For startup probes.
  bool started = false;
  // A restart would not help. It does not depend on load, nor on any single model.
  bool live = true;
  // New clients are welcome, and there is a model that can serve them.
  bool ready = false;
  // Calls that do not decode, such as those about models, are welcome.
  bool tells = false;
  // Why it is not ready, for people.
  const char* reason = "ok";

  // Whether clients of one model are welcome. able: it is served, and not quarantined.
  bool ModelReady(bool able) const { return ready && able; }
};

// any_able: there is a model that is served and not quarantined. hangs: the engine has work and has
// not come round for the liveness timeout.
Health HealthOf(Phase phase, bool any_able, bool hangs);

// What calls get that come too late: Unavailable.
absl::Status ShuttingDown();
// What connections get that are more than a listener takes: Unavailable, try again in a second.
absl::Status TooManyConnections();
// What calls get for whose request or answer there is no memory: ResourceExhausted, try again in a
// second.
absl::Status MemoryRunsShort();

// Thread-safe.
class ServingState {
 public:
  Phase phase() const { return phase_; }
  void Enter(Phase phase);
  // Whether any model can serve (serving/availability.h), which follows the state itself.
  void SetAble(bool able) { able_ = able; }
  // Whether the engine hangs (serving/server_threads.h).
  void SetHangs(bool hangs);
  // The answer of probes. Takes no lock.
  Health health() const { return HealthOf(phase_, able_, hangs_); }
  // Calls `observer` after each change of the phase or of the engine. Null ends that, and waits for
  // a call in progress.
  void Observe(std::function<void()> observer);

  // Unavailable, saying why, if no call may be taken.
  absl::Status CheckAccepting() const;
  // Unavailable while models are being loaded, so that a model that is still loading is not
  // NOT_FOUND.
  absl::Status CheckLoaded() const;

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
  void Tell();
  bool NoCalls() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_calls_ == 0; }

  std::atomic<Phase> phase_{Phase::kLoading};
  std::atomic<bool> able_{true};
  std::atomic<bool> hangs_{false};
  absl::Mutex observer_mutex_;  // held while it is called
  std::function<void()> observer_ ABSL_GUARDED_BY(observer_mutex_);
  absl::Mutex mutex_;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_call_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SERVING_STATE_H_
