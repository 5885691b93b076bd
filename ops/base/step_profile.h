// StepProfile: where a thread's time goes, by phase, and how long each step takes. A benchmark
// gives one to the engine, whose first thread hands it on in its ExecutionContext; where no
// benchmark measures, a phase costs a look at a pointer.
//
// Phases nest: time inside an inner phase counts for that one alone, so that the phases' times add
// up to what passed.
#ifndef BEAMWRIGHT_OPS_BASE_STEP_PROFILE_H_
#define BEAMWRIGHT_OPS_BASE_STEP_PROFILE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace beamwright {

enum class Phase {
  kIdle,       // waiting for requests
  kPrepare,    // admission: encoders, what a request's steps share, start states
  kProducts,   // products with weights
  kGates,      // cells without their products
  kAttention,  // whatever runs request by request
  kOther,      // the rest of the step graph, and moving rows
  kSelection,  // log-sum-exp and candidates of each row
  kSearch,     // hypotheses, and answers
};
inline constexpr std::array<const char*, 8> kPhaseNames = {
    "idle", "prepare", "products", "gates", "attention", "other", "selection", "search"};

class StepProfile {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts for the calling thread from now on; before, for none. Phases of threads that share its
  // work change nothing.
  void StartHere() { thread_ = std::this_thread::get_id(); }
  bool counts_here() const { return thread_ == std::this_thread::get_id(); }

  // Starts counting for `phase`; returns the one that was counted for until now.
  Phase Switch(Phase phase) {
    const Clock::time_point now = Clock::now();
    times_[static_cast<size_t>(phase_)] += now - last_;
    last_ = now;
    return std::exchange(phase_, phase);
  }
  void AddStep(Clock::duration time) { steps_.push_back(time); }

  const std::array<Clock::duration, kPhaseNames.size()>& times() const { return times_; }
  // How long each step took, of all requests together.
  const std::vector<Clock::duration>& steps() const { return steps_; }

 private:
  std::thread::id thread_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point last_ = Clock::now();
  std::array<Clock::duration, kPhaseNames.size()> times_{};
  std::vector<Clock::duration> steps_;
};

// Counts for `phase` while it lives. profile: of an ExecutionContext; null: nothing is measured.
class PhaseScope {
 public:
  PhaseScope(StepProfile* profile, Phase phase)
      : profile_(profile != nullptr && profile->counts_here() ? profile : nullptr) {
    before_ = profile_ == nullptr ? phase : profile_->Switch(phase);
  }
  ~PhaseScope() {
    if (profile_ != nullptr) {
      profile_->Switch(before_);
    }
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  StepProfile* const profile_;
  Phase before_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_STEP_PROFILE_H_
