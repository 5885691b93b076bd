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
#include "engine/schedule/worker.h"

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
  using WorkerPtr = std::shared_ptr<Worker>;
  struct Thread {
    WorkerPtr worker;
    std::thread thread;
  };

  void Run(const WorkerPtr& worker, bool is_first);
  // What the worker does next; false: its thread ends.
  bool Take(Worker& worker, EncodeQueue::Requests& admitted, absl::Status& end);
  // Hands requests of models that a worker has alone over to it, and refuses those of models that
  // are out of service.
  void HandOver(EncodeQueue::Requests& admitted);
  // A new thread takes over what the worker has of other models than `model`. Under the lock of the
  // worker's run.
  void Split(Worker& worker, const DecodeModel& model);

  const EngineOptions& options_;
  const int number_;
  Admission& admission_;
  Quarantine& quarantine_;
  std::atomic<int> num_alone_{0};  // workers
  absl::Mutex mutex_;              // taken after that of a run, and before that of a worker
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_SCHEDULER_H_
