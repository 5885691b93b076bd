#include "server/http/workers.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>

namespace beamwright::http {

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

std::function<void()> Workers::Next(bool takes_large) {
  const bool is_large = takes_large && !large_.empty() && (tasks_.empty() || !was_large_);
  std::deque<std::function<void()>>& tasks = is_large ? large_ : tasks_;
  if (takes_large) {
    was_large_ = is_large;
  }
  if (tasks.empty()) {
    return nullptr;
  }
  std::function<void()> task = std::move(tasks.front());
  tasks.pop_front();
  return task;
}

void Workers::Run(bool takes_large) {
  const auto has_work = [this, takes_large]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stop_ || !tasks_.empty() || (takes_large && !large_.empty());
  };
  for (;;) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      ++num_idle_;
      mutex_.Await(absl::Condition(&has_work));
      --num_idle_;
      task = Next(takes_large);
    }
    if (task == nullptr) {
      return;  // stop_
    }
    try {
      task();
    } catch (const std::bad_alloc&) {
      // The connection whose request it was ends with the task.
    }
  }
}

}  // namespace beamwright::http
