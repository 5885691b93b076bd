// Supervisor: a thread that looks after other threads again and again while they have work.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_SCHEDULE_SUPERVISOR_H_
#define BEAMWRIGHT_ENGINE_SCHEDULE_SUPERVISOR_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::engine {

class Supervisor {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(20);

  // Calls `look` every kInterval while `has_work`, on a separate thread.
  Supervisor(std::function<bool()> has_work, std::function<void()> look);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // To be called when there may be work again. A load unless the thread sleeps.
  void WorkHasCome();

 private:
  void Run();

  const std::function<bool()> has_work_;
  const std::function<void()> look_;
  std::atomic<bool> sleeps_{false};
  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_SCHEDULE_SUPERVISOR_H_
