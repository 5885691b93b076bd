// Scheduler: the engine's threads that share one place in the admission. One of them admits,
// encodes and steps all models in turn. When an encoder run or a step takes longer than slow_step,
// that thread keeps the model, a new thread takes over all others, and requests of the slow model
// are handed to its thread, until that has had nothing to do for a while. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_SCHEDULER_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_SCHEDULER_H_

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/schedule/lane.h"

namespace beamwright::engine {

class Scheduler {
 public:
  // What it is given must outlive it.
  Scheduler(const EngineOptions& options, int number, Admission& admission, Quarantine& quarantine);
  // Once the admission is drained.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Looks after what is under way; for one thread, again and again.
  void Look(absl::Time now, const absl::Status& end);

 private:
  using LanePtr = std::shared_ptr<Lane>;
  struct Thread {
    LanePtr lane;
    std::thread thread;
  };

  void Run(const LanePtr& lane, bool is_first);
  // What the lane works on next; false: its thread ends.
  bool Take(Lane& lane, EncodeQueue::Requests& admitted, absl::Status& end);
  bool TakeApart(Lane& lane, EncodeQueue::Requests& admitted, absl::Status& end);
  // Hands requests of models that have a separate lane to it, and refuses those of models that
  // are out of service.
  void HandOn(EncodeQueue::Requests& admitted);
  // A new thread takes over what the lane has of other models than `model`. Under the lane's lock.
  void SetApart(Lane& lane, const DecodeModel& model);
  void TellApart(Lane& lane, Reserved running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions& options_;
  const int number_;
  Admission& admission_;
  Quarantine& quarantine_;
  const Interruption* const interruption_ = Interruption::current();
  std::atomic<int> num_apart_{0};
  absl::Mutex mutex_;  // taken after a lane's
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_SCHEDULER_H_
