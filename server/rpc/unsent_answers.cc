#include "server/rpc/unsent_answers.h"

namespace beamwright::rpc {

void UnsentAnswers::Add(grpc::CallbackServerContext& context) {
  absl::MutexLock lock(&mutex_);
  calls_.emplace(&context, std::chrono::steady_clock::now());
}

void UnsentAnswers::Remove(grpc::CallbackServerContext& context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(&context);
}

int UnsentAnswers::CancelOlderThan(std::chrono::steady_clock::time_point time) {
  absl::MutexLock lock(&mutex_);
  int count = 0;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second < time) {
      it->first->TryCancel();
      calls_.erase(it++);
      ++count;
    } else {
      ++it;
    }
  }
  return count;
}

}  // namespace beamwright::rpc
