#include "server/serving/task_thread.h"

#include <pthread.h>

#include <utility>

namespace beamwright::serving {

TaskThread::TaskThread(const char* name) : thread_([this, name] { Run(name); }) {}

TaskThread::~TaskThread() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void TaskThread::Post(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

void TaskThread::Run(const char* name) {
  pthread_setname_np(pthread_self(), name);
  std::vector<std::function<void()>> tasks;
  while (true) {
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &TaskThread::HasWork));
      if (tasks_.empty()) {
        return;  // stop_, and nothing is left
      }
      tasks.swap(tasks_);
    }
    for (std::function<void()>& task : tasks) {
      task();
    }
    tasks.clear();
  }
}

}  // namespace beamwright::serving
