// TaskThread: a thread for work that must not hold up the thread on which it comes up. Finished
// calls are serialised and handed to gRPC on one, so that the engine's thread goes on with its next
// step instead; models are loaded on another, and not on gRPC's.
#ifndef BEAMWRIGHT_SERVER_SERVING_TASK_THREAD_H_
#define BEAMWRIGHT_SERVER_SERVING_TASK_THREAD_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::serving {

// Thread-safe.
class TaskThread {
 public:
  // `name`: for top and the like, of at most 15 bytes.
  explicit TaskThread(const char* name);
  // Runs what was posted.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Runs `task` soon, in the order of posting.
  void Post(std::function<void()> task);

 private:
  void Run(const char* name);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !tasks_.empty(); }

  absl::Mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_TASK_THREAD_H_
