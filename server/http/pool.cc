#include "server/http/pool.h"

#include <algorithm>
#include <utility>

namespace beamwright::http {
namespace {

thread_local bool refusing = false;

}  // namespace

Pool::Pool(int threads, int max_waiting, Waiting& waiting)
    : max_waiting_(max_waiting), waiting_(waiting) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

void Pool::enqueue(std::function<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    if (static_cast<int>(tasks_.size()) < max_waiting_ + num_idle_) {
      tasks_.push_back(std::move(task));
      // What an idle thread is about to take does not wait.
      waiting_ = std::max(static_cast<int>(tasks_.size()) - num_idle_, 0);
      return;
    }
  }
  refusing = true;
  task();
  refusing = false;
}

void Pool::shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

bool Pool::Refusing() { return refusing; }

void Pool::Run() {
  for (;;) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      ++num_idle_;
      mutex_.Await(absl::Condition(this, &Pool::HasWork));
      --num_idle_;
      if (tasks_.empty()) {
        return;  // stop_
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
      waiting_ = std::max(static_cast<int>(tasks_.size()) - num_idle_, 0);
    }
    task();
  }
}

}  // namespace beamwright::http
