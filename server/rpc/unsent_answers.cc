#include "server/rpc/unsent_answers.h"

#include "absl/time/clock.h"

namespace beamwright::rpc {

void UnsentAnswers::Add(grpc::CallbackServerContext& context) {
  absl::MutexLock lock(&mutex_);
  calls_.emplace(&context, absl::Now());
}

void UnsentAnswers::Remove(grpc::CallbackServerContext& context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(&context);
}

int UnsentAnswers::CancelOlderThan(absl::Time time) {
  absl::MutexLock lock(&mutex_);
  int count = 0;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second < time) {
      it->first->TryCancel();
      it = calls_.erase(it);
      ++count;
    } else {
      ++it;
    }
  }
  return count;
}

}  // namespace beamwright::rpc
