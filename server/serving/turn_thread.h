// TurnThread: a thread for work of calls that takes long before the engine has it, such as to read
// a large request, to compile a pattern, to unpack a picture: too long for the threads that the
// calls of all clients share. Clients take turns by the rules of the engine's queue
// (engine/queue/fair_queue.h), and a call whose client has gone has no turn.
#ifndef BEAMWRIGHT_SERVER_SERVING_TURN_THREAD_H_
#define BEAMWRIGHT_SERVER_SERVING_TURN_THREAD_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/queue/fair_queue.h"
#include "server/serving/caller.h"
#include "server/serving/task_thread.h"

namespace beamwright::serving {

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

#endif  // BEAMWRIGHT_SERVER_SERVING_TURN_THREAD_H_
