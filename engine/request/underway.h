// Underway: what an engine's thread computes with a model at the moment, an encoder run or a step,
// and whose requests are in it. It may not come to an end, so another thread, the engine's
// supervisor, can look at it, answer those requests and interrupt it. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_UNDERWAY_H_
#define BEAMWRIGHT_ENGINE_REQUEST_UNDERWAY_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/request/request.h"
#include "ops/base/interruption.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

class Driver;

class Underway {
 public:
  // `parent`: whatever else interrupts the work; may be null.
  explicit Underway(const Interruption* parent) : interruption_(parent) {}

  // While it lives the thread that made it leaves `requests`, which must live as long (but for what
  // the model computes of them), to the thread that holds the mutex, and so all else that its
  // worker has. `underway` may be null: no watchdog. driver: whose step it is; null: an encoder
  // run.
  class Scope {
   public:
    Scope(Underway* underway, const DecodeModel& model, absl::Span<Request* const> requests,
          Driver* driver)
        : underway_(underway) {
      if (underway_ != nullptr) {
        absl::MutexLock lock(&underway_->mutex_);
        underway_->was_interrupted_ = false;
        underway_->work_ = {&model, requests, driver, SteadyNow()};
      }
    }
    ~Scope() {
      if (underway_ != nullptr) {
        absl::MutexLock lock(&underway_->mutex_);
        // What the thread runs next, in no scope perhaps, is others' and not to be interrupted.
        underway_->was_interrupted_ = underway_->interruption_.raised_here();
        underway_->interruption_.Reset();
        underway_->work_ = {};
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Underway* const underway_;
  };

  struct Work {
    const DecodeModel* model = nullptr;  // null: nothing is under way
    absl::Span<Request* const> requests;
    Driver* driver = nullptr;
    absl::Time since;
  };

  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  const Work& work() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return work_; }
  // For the thread that works: whether its last run was interrupted because of who was in it.
  bool was_interrupted() const { return was_interrupted_; }
  // What the work's ExecutionContext names; raised with the mutex held, while something is under
  // way, so that it does not hit what comes behind.
  Interruption& interruption() { return interruption_; }

 private:
  mutable absl::Mutex mutex_;
  Work work_ ABSL_GUARDED_BY(mutex_);
  bool was_interrupted_ = false;  // the working thread's
  Interruption interruption_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_UNDERWAY_H_
