#include "server/http/workers.h"

#include <pthread.h>

#include <new>
#include <utility>

namespace beamwright::http {

Workers::Workers(int threads, int max_waiting, const std::string& name)
    : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      Run();
    });
  }
}

Workers::~Workers() { Stop(); }

bool Workers::Add(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  // What an idle thread is about to take does not wait.
  if (stop_ || static_cast<int>(tasks_.size()) >= max_waiting_ + num_idle_) {
    return false;
  }
  tasks_.push_back(std::move(task));
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

void Workers::Run() {
  for (;;) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      ++num_idle_;
      mutex_.Await(absl::Condition(this, &Workers::HasWork));
      --num_idle_;
      if (tasks_.empty()) {
        return;  // stop_
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    try {
      task();
    } catch (const std::bad_alloc&) {
      // The connection whose request it was ends with the task.
    }
  }
}

}  // namespace beamwright::http
