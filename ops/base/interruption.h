// Interruption: how another thread stops work on graphs before its end. Work looks at the one that
// its ExecutionContext names: loops in each iteration, programs before each instruction, and both
// fail with Cancelled once it is raised. One instruction that takes long is not interrupted.
#ifndef BEAMWRIGHT_OPS_BASE_INTERRUPTION_H_
#define BEAMWRIGHT_OPS_BASE_INTERRUPTION_H_

#include <atomic>

namespace beamwright {

// Thread-safe.
class Interruption {
 public:
  // Raised as well while `parent` is, which must outlive it; null: none.
  explicit Interruption(const Interruption* parent = nullptr) : parent_(parent) {}
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void Raise() { raised_.store(true, std::memory_order_relaxed); }
  // Before the next piece of work.
  void Reset() { raised_.store(false, std::memory_order_relaxed); }
  bool raised() const {
    return raised_.load(std::memory_order_relaxed) || (parent_ != nullptr && parent_->raised());
  }
  // Whether it was raised itself.
  bool raised_here() const { return raised_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> raised_{false};
  const Interruption* const parent_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_INTERRUPTION_H_
