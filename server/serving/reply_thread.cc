#include "server/serving/reply_thread.h"

#include <pthread.h>

#include <utility>

namespace beamwright::serving {

ReplyThread::ReplyThread() : thread_([this] { Run(); }) {}

ReplyThread::~ReplyThread() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void ReplyThread::Post(std::function<void()> reply) {
  absl::MutexLock lock(&mutex_);
  replies_.push_back(std::move(reply));
}

void ReplyThread::Run() {
  pthread_setname_np(pthread_self(), "bw-replies");
  std::vector<std::function<void()>> replies;
  while (true) {
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &ReplyThread::HasWork));
      if (replies_.empty()) {
        return;  // stop_, and nothing is left
      }
      replies.swap(replies_);
    }
    for (std::function<void()>& reply : replies) {
      reply();
    }
    replies.clear();
  }
}

}  // namespace beamwright::serving
