// Workers: the threads on which an HTTP listener's handlers run, which may wait, and the tasks that
// wait for one. Private to server/http/.
#ifndef BEAMWRIGHT_SERVER_HTTP_WORKERS_H_
#define BEAMWRIGHT_SERVER_HTTP_WORKERS_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace beamwright::http {

// Thread-safe.
class Workers {
 public:
  // large_threads: of the threads, how many take large tasks.
  Workers(int threads, int large_threads, int max_waiting, const std::string& name);
  // As Stop.
  ~Workers();

  // Runs `task` when a thread is free; false where too many tasks wait already. Large tasks run on
  // few threads, which small ones may use as well: many large ones neither keep small ones waiting
  // nor leave the memory that malloc keeps behind them in the arena of every thread.
  bool Add(std::function<void()> task, bool is_large);
  // The next part of something that was added: it runs before what waits, and is never refused.
  void Continue(std::function<void()> task);
  // Returns when all tasks have run.
  void Stop();

 private:
  void Run(bool takes_large);
  // A task for such a thread, null if none waits. Large and small ones alternate.
  std::function<void()> Next(bool takes_large) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int max_waiting_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> large_ ABSL_GUARDED_BY(mutex_);
  bool was_large_ ABSL_GUARDED_BY(mutex_) = false;  // the last task of a thread for large ones
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_WORKERS_H_
