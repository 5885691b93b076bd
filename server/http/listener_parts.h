// Parts of a listener: its open connections, the one that has been quiet for longest first, and the
// threads on which handlers run. Private to server/http/.
#ifndef BEAMWRIGHT_SERVER_HTTP_LISTENER_PARTS_H_
#define BEAMWRIGHT_SERVER_HTTP_LISTENER_PARTS_H_

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::http {

// OpenConnections: the connections of an HTTP listener, the one that has been quiet for longest
// first: that one makes room where there are too many.

// As the account sees it. Its functions may be called on any thread.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  // Ends, unless a handler works for it.
  virtual void MakeRoom() = 0;
  // The server stops: ends as soon as what it owes is answered.
  virtual void Leave() = 0;
};

struct ConnectionBounds {
  // Of those that have been quiet for longer than `grace`.
  int max_connections = 4096;
  // How long a connection that has just come, or was just answered, has to ask before it may have
  // to make room: in a crowd that comes again at once, even the oldest has only just come.
  absl::Duration grace = absl::Milliseconds(500);
  // Beyond max_connections that have their grace; with more than that none has it.
  int max_young = 512;
};

// Thread-safe.
class OpenConnections {
 private:
  struct Entry {
    std::weak_ptr<OpenConnection> connection;
    absl::Time quiet_since;
    std::list<Entry>* list;  // the one that holds it
  };

 public:
  using Place = std::list<Entry>::iterator;

  explicit OpenConnections(const ConnectionBounds& bounds) : bounds_(bounds) {}

  Place Enter(const std::weak_ptr<OpenConnection>& connection);
  void Remove(Place place);
  // It waits for its client from now on.
  void SetQuiet(Place place);
  // A handler works for it: it does not make room.
  void SetBusy(Place place);

  // It is served by others from now on: it does not make room, and the end does not wait for it.
  void SetTaken(Place place);

  // There is no place for another one, and none that could make room.
  bool IsFull() const;
  // The one that has to make room now, or null.
  std::shared_ptr<OpenConnection> Excess();
  // The one that has been quiet for longest, where the process has no file left.
  std::shared_ptr<OpenConnection> Idlest();
  std::vector<std::shared_ptr<OpenConnection>> All() const;
  int size() const;
  // But for those that are taken.
  void WaitUntilNone() const;

 private:
  std::shared_ptr<OpenConnection> TakeIdlest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move(Place place, std::list<Entry>& to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int NumStaying() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return static_cast<int>(quiet_.size() + busy_.size() + taken_.size());
  }

  const ConnectionBounds bounds_;
  mutable absl::Mutex mutex_;
  std::list<Entry> quiet_ ABSL_GUARDED_BY(mutex_);  // in the order of quiet_since
  std::list<Entry> busy_ ABSL_GUARDED_BY(mutex_);
  std::list<Entry> taken_ ABSL_GUARDED_BY(mutex_);
  std::list<Entry> leaving_ ABSL_GUARDED_BY(mutex_);  // to make room
};

// Turns: actions that happen one at a time, so far apart. Thread-safe.
class Turns {
 public:
  explicit Turns(absl::Duration between) : between_(between) {}

  // How long an action that is asked for at `now` has to wait. Each call is a turn.
  absl::Duration Next(absl::Time now);

 private:
  const absl::Duration between_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Workers: the threads on which an HTTP listener's handlers run, which may wait, and the tasks that
// wait for one.

// Thread-safe.
class Workers {
 public:
  // large_threads: of the threads, how many take large tasks.
  Workers(int threads, int large_threads, int max_waiting, const std::string& name);
  // As Stop.
  ~Workers();

  // Runs `task` when a thread is free; false where too many tasks wait already. Large tasks run on
  // few threads, which small ones may use as well: many large ones neither keep small ones waiting
  // nor leave the memory that malloc keeps behind them in the arena of every thread. They run in
  // long time slices, so that all other threads of the process go first.
  bool Add(std::function<void()> task, bool is_large);
  // The next part of something that was added: it runs before what waits, and is never refused.
  void Continue(std::function<void()> task);
  // Returns when all tasks have run.
  void Stop();

 private:
  struct Task {
    std::function<void()> run;  // null: no task waits
    bool is_large = false;
  };

  void Run(bool takes_large);
  // A task for such a thread. Large and small ones alternate.
  Task Next(bool takes_large) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

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

#endif  // BEAMWRIGHT_SERVER_HTTP_LISTENER_PARTS_H_
