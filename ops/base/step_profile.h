// StepProfile: where a thread's time goes, by phase, and how long each step takes. A benchmark
// gives one to the engine, whose thread makes it its own; on every other thread, and where no
// benchmark measures, a phase costs a look at a thread's own pointer.
//
// Phases nest: time inside an inner phase counts for that one alone, so that the phases' times add
// up to what passed.
#ifndef BEAMWRIGHT_OPS_BASE_STEP_PROFILE_H_
#define BEAMWRIGHT_OPS_BASE_STEP_PROFILE_H_

#include <array>
#include <chrono>
#include <cstddef>
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

  // Makes `profile` (may be null) the thread's own while it lives.
  class Here {
   public:
    explicit Here(StepProfile* profile) : before_(std::exchange(current_, profile)) {}
    ~Here() { current_ = before_; }
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;

   private:
    StepProfile* const before_;
  };
  // The thread's profile; null: not measured.
  static StepProfile* current() { return current_; }

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
  static inline thread_local StepProfile* current_ = nullptr;
  Phase phase_ = Phase::kIdle;
  Clock::time_point last_ = Clock::now();
  std::array<Clock::duration, kPhaseNames.size()> times_{};
  std::vector<Clock::duration> steps_;
};

// Counts for `phase` while it lives.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase) : profile_(StepProfile::current()) {
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
