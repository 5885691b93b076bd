// Interruption: how another thread stops work on graphs before its end. A thread that
// works says which one it looks at; loops then look in each iteration and programs before each
// instruction, and fail with Cancelled. One instruction that takes long is not interrupted.
#ifndef BEAMWRIGHT_OPS_BASE_INTERRUPTION_H_
#define BEAMWRIGHT_OPS_BASE_INTERRUPTION_H_

#include <atomic>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"

namespace beamwright {

// Thread-safe.
class Interruption {
 public:
  // Raised as well while `parent` is, which must outlive it; null: none.
  explicit Interruption(const Interruption* parent = current()) : parent_(parent) {}
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

  // What work on the calling thread looks at; null: nothing.
  static const Interruption* current() { return current_; }
  // Cancelled once that is raised.
  static absl::Status CheckCurrent() {
    return ABSL_PREDICT_TRUE(current_ == nullptr || !current_->raised())
               ? absl::OkStatus()
               : absl::CancelledError("the run was interrupted");
  }
  // Makes it the current one of this thread while it lives.
  class Scope {
   public:
    explicit Scope(const Interruption* interruption)
        : before_(std::exchange(current_, interruption)) {}
    ~Scope() { current_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Interruption* before_;
  };

 private:
  static inline thread_local const Interruption* current_ = nullptr;

  std::atomic<bool> raised_{false};
  const Interruption* const parent_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_INTERRUPTION_H_
