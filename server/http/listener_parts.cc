// 1. OpenConnections keeps every connection in one of four lists: quiet_ (between requests, the one
//    that has been so for longest first), busy_, taken_ (handed over to WebSocket) and leaving_
//    (asked to close). Moves between them are splices, so a Place stays valid. Above
//    max_connections Excess names the quiet one to close; with none quiet and max_young more,
//    IsFull says that no other may come.
// 2. Workers: threads that answer requests. Only some take large ones (takes_large), and those take
//    a large and a small one by turns (Next), so neither kind keeps the other waiting, and large
//    ones in long time slices, so that threads for small ones need not wait for a CPU. Add refuses
//    when max_waiting tasks wait; Continue puts the next part of a task in front.
#include "server/http/listener_parts.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "ops/base/steady_time.h"
#include "ops/base/threads.h"

namespace beamwright::http {

OpenConnections::Place OpenConnections::Enter(const std::weak_ptr<OpenConnection>& connection) {
  absl::MutexLock lock(&mutex_);
  quiet_.push_back({connection, SteadyNow(), &quiet_});
  return std::prev(quiet_.end());
}

void OpenConnections::Remove(Place place) {
  absl::MutexLock lock(&mutex_);
  place->list->erase(place);
}

void OpenConnections::Move(Place place, std::list<Entry>& to) {
  to.splice(to.end(), *place->list, place);
  place->list = &to;
}

void OpenConnections::SetQuiet(Place place) {
  absl::MutexLock lock(&mutex_);
  place->quiet_since = SteadyNow();
  Move(place, quiet_);
}

void OpenConnections::SetBusy(Place place) {
  absl::MutexLock lock(&mutex_);
  Move(place, busy_);
}

void OpenConnections::SetTaken(Place place) {
  absl::MutexLock lock(&mutex_);
  Move(place, taken_);
}

bool OpenConnections::IsFull() const {
  absl::MutexLock lock(&mutex_);
  return quiet_.empty() && NumStaying() >= bounds_.max_connections + bounds_.max_young;
}

std::shared_ptr<OpenConnection> OpenConnections::Excess() {
  absl::MutexLock lock(&mutex_);
  if (quiet_.empty() || NumStaying() <= bounds_.max_connections) {
    return nullptr;
  }
  const bool had_its_time = SteadyNow() - quiet_.front().quiet_since >= bounds_.grace;
  return had_its_time || NumStaying() > bounds_.max_connections + bounds_.max_young ? TakeIdlest()
                                                                                    : nullptr;
}

std::shared_ptr<OpenConnection> OpenConnections::Idlest() {
  absl::MutexLock lock(&mutex_);
  return TakeIdlest();
}

std::shared_ptr<OpenConnection> OpenConnections::TakeIdlest() {
  // One without a connection is about to be removed.
  while (!quiet_.empty()) {
    std::shared_ptr<OpenConnection> idlest = quiet_.front().connection.lock();
    Move(quiet_.begin(), leaving_);
    if (idlest != nullptr) {
      return idlest;
    }
  }
  return nullptr;
}

std::vector<std::shared_ptr<OpenConnection>> OpenConnections::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<OpenConnection>> all;
  for (const std::list<Entry>* list : {&quiet_, &busy_, &taken_, &leaving_}) {
    for (const Entry& entry : *list) {
      if (std::shared_ptr<OpenConnection> connection = entry.connection.lock()) {
        all.push_back(std::move(connection));
      }
    }
  }
  return all;
}

int OpenConnections::size() const {
  absl::MutexLock lock(&mutex_);
  return NumStaying() + static_cast<int>(leaving_.size());
}

void OpenConnections::WaitUntilNone() const {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return quiet_.empty() && busy_.empty() && leaving_.empty();
  };
  mutex_.Await(absl::Condition(&none));
}

absl::Duration Turns::Next(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const absl::Time turn = std::max(now, next_);
  next_ = turn + between_;
  return turn - now;
}

Workers::Workers(int threads, int large_threads, int max_waiting, const std::string& name)
    : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, name, takes_large = i < std::max(1, large_threads)] {
      pthread_setname_np(pthread_self(), name.c_str());
      Run(takes_large);
    });
  }
}

Workers::~Workers() { Stop(); }

bool Workers::Add(std::function<void()> task, bool is_large) {
  absl::MutexLock lock(&mutex_);
  std::deque<std::function<void()>>& tasks = is_large ? large_ : tasks_;
  // What an idle thread is about to take does not wait.
  if (stop_ || static_cast<int>(tasks.size()) >= max_waiting_ + num_idle_) {
    return false;
  }
  tasks.push_back(std::move(task));
  return true;
}

void Workers::Continue(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_front(std::move(task));
}

void Workers::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

Workers::Task Workers::Next(bool takes_large) {
  Task task;
  task.is_large = takes_large && !large_.empty() && (tasks_.empty() || !was_large_);
  std::deque<std::function<void()>>& tasks = task.is_large ? large_ : tasks_;
  if (takes_large) {
    was_large_ = task.is_large;
  }
  if (!tasks.empty()) {
    task.run = std::move(tasks.front());
    tasks.pop_front();
  }
  return task;
}

void Workers::Run(bool takes_large) {
  const auto has_work = [this, takes_large]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stop_ || !tasks_.empty() || (takes_large && !large_.empty());
  };
  for (;;) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      ++num_idle_;
      mutex_.Await(absl::Condition(&has_work));
      --num_idle_;
      task = Next(takes_large);
    }
    if (task.run == nullptr) {
      return;  // stop_
    }
    std::optional<LongTimeSlices> slices;
    if (task.is_large) {
      slices.emplace();
    }
    try {
      task.run();
    } catch (const std::bad_alloc&) {
      // The connection whose request it was ends with the task.
    }
  }
}

}  // namespace beamwright::http
