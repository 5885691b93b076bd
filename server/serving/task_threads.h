// Threads for work of calls that must not hold up others: what comes up on the engine's or gRPC's
// thread, and what takes long.
#ifndef BEAMWRIGHT_SERVER_SERVING_TASK_THREADS_H_
#define BEAMWRIGHT_SERVER_SERVING_TASK_THREADS_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/queue/fair_queue.h"
#include "server/serving/caller.h"

namespace beamwright::serving {

// TaskThread: a thread for work that must not hold up the thread on which it comes up. Finished
// calls are serialised and handed to gRPC on one, so that the engine's thread goes on with its next
// step instead; models are loaded on another, and not on gRPC's.

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

// TurnThread: a thread for work of calls that takes long before the engine has it, such as to read
// a large request, to compile a pattern, to unpack a picture: too long for the threads that the
// calls of all clients share. Clients take turns by the rules of the engine's queue
// (engine/queue/fair_queue.h), and a call whose client has gone has no turn.

// Thread-safe.
class TurnThread {
 public:
  // Runs when it is the caller's turn: with OK, or with the error that the call ends with if its
  // client has gone, its deadline has passed, or End was called meanwhile.
  using Work = std::function<void(const absl::Status&)>;

  // name: as a TaskThread's. most_calls: that wait at a time.
  TurnThread(const char* name, int most_calls);
  // Ends what waits, as End.
  ~TurnThread();
  TurnThread(const TurnThread&) = delete;
  TurnThread& operator=(const TurnThread&) = delete;

  // ResourceExhausted if too many wait, Unavailable or the like after End: `work` is not run then.
  absl::Status Post(const Caller& caller, Work work);

  // Ends the calls that wait, and all that are posted from now on, with `why`.
  void End(const absl::Status& why);

 private:
  // Posted once for each call: gives the next one its turn, and ends those that are dead.
  void RunNext();

  absl::Mutex mutex_;
  engine::FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // OK until End
  TaskThread thread_;                         // last: it uses the others
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_TASK_THREADS_H_
