// Threads of the server: for work of calls that must not hold up others (what comes up on the
// engine's or gRPC's thread, and what takes long), and watches, which look at the server itself and
// at streams of which nothing is heard.
#ifndef BEAMWRIGHT_SERVER_SERVING_SERVER_THREADS_H_
#define BEAMWRIGHT_SERVER_SERVING_SERVER_THREADS_H_

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/queue/fair_queue.h"
#include "ops/base/threads.h"
#include "server/serving/caller.h"
#include "server/serving/serving_state.h"

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

// StreamWatch: ends Recognize calls of which nothing is heard: a stream holds memory of the engine
// for as long as it is open, and a client that has gone without a word would hold it for ever. All
// protocols are watched, because each stream is a Recognition, which adds itself to its core's.

class Recognition;

// Thread-safe.
class StreamWatch {
 public:
  static constexpr absl::Duration kDefaultIdle = absl::Minutes(1);
  // While the server drains: a client may finish its stream, and an idle stream must not delay the
  // end of the server.
  static constexpr absl::Duration kMostIdleInDrain = absl::Seconds(2);

  // No stream ends until SetIdle.
  StreamWatch() = default;
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // A stream ends when its client has sent nothing for `idle`; zero: never. Before the first
  // stream.
  void SetIdle(absl::Duration idle);
  // Infinite: no stream ends for that.
  absl::Duration idle() const;
  void Add(std::weak_ptr<Recognition> stream);
  // Some of them may be gone.
  size_t num_streams() const;
  // Ends the streams that are idle at `now`, by SteadyNow. The watch's thread calls it now and
  // then.
  void Look(absl::Time now);
  // While the server drains, now and then: ends streams that have been idle for kMostIdleInDrain,
  // with Unavailable after the segments that were found.
  void LookInDrain(absl::Time now);

 private:
  // Ends streams that are idle for such a time with this status.
  void EndIdle(absl::Time now, absl::Duration idle, const absl::Status& why);

  mutable absl::Mutex mutex_;
  absl::Duration idle_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::vector<std::weak_ptr<Recognition>> streams_ ABSL_GUARDED_BY(mutex_);
  size_t most_streams_ ABSL_GUARDED_BY(mutex_) = 0;  // before those that are gone are erased
  // From the first stream on. Last: it uses the others.
  std::optional<PeriodicThread> thread_;
};

// Watches: threads that look at the server itself.

// StartupWatch: a server that does not get ready in its time should say so and make room for
// another one, instead of sitting there half started; a supervisor sees its exit code.
class StartupWatch {
 public:
  // Calls `too_late`, once and on a separate thread, unless Started or the destructor comes
  // before `timeout` is over. Zero: never.
  StartupWatch(absl::Duration timeout, std::function<void()> too_late);
  ~StartupWatch();
  StartupWatch(const StartupWatch&) = delete;
  StartupWatch& operator=(const StartupWatch&) = delete;

  // The server is ready. Once.
  void Started() { started_.Notify(); }

 private:
  absl::Notification started_;
  std::thread thread_;
};

// EngineWatch: looks whether the engine still comes round, and reports to ServingState. Probes and
// health services read what it found, so that none of them ever waits for the engine's locks, and
// all of them say the same.
class EngineWatch {
 public:
  // stalled: for how long the engine has had work and not come round (Engine::Load::stalled). It is
  // asked on the watch's thread, eight times in `longest` and once a second at least. An engine
  // that stalls for more than `longest` hangs.
  EngineWatch(std::function<absl::Duration()> stalled, absl::Duration longest, ServingState& state);
  // From now on no hang of the engine is reported.
  ~EngineWatch();
  EngineWatch(const EngineWatch&) = delete;
  EngineWatch& operator=(const EngineWatch&) = delete;

 private:
  void Look();

  const std::function<absl::Duration()> stalled_;
  const absl::Duration longest_;
  ServingState& state_;
  bool hung_ = false;  // the thread's own
  // Optional, so that it ends before the state is reset. Last: it uses the others.
  std::optional<PeriodicThread> thread_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SERVER_THREADS_H_
