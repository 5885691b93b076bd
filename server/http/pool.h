// Pool: the threads of an HTTP listener and the connections that wait for one.
#ifndef BEAMWRIGHT_SERVER_HTTP_POOL_H_
#define BEAMWRIGHT_SERVER_HTTP_POOL_H_

#include <httplib.h>

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::http {

// How many connections wait for a thread; outlives the pool.
using Waiting = std::atomic<int>;

class Pool final : public httplib::TaskQueue {
 public:
  Pool(int threads, int max_waiting, Waiting& waiting);

  // Runs `task` on a thread of the pool, or, where too many wait, at once on the caller's with
  // Refusing() true.
  void enqueue(std::function<void()> task) override;
  // Returns when all tasks have run.
  void shutdown() override;

  // True inside a task that is there to be refused.
  static bool Refusing();

 private:
  void Run();
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !tasks_.empty(); }

  const int max_waiting_;
  Waiting& waiting_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_POOL_H_
