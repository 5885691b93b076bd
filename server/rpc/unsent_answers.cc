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

absl::flat_hash_set<std::string> UnsentAnswers::CancelOlderThan(
    std::chrono::steady_clock::time_point time) {
  absl::MutexLock lock(&mutex_);
  absl::flat_hash_set<std::string> peers;
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second < time) {
      peers.insert(it->first->peer());
      it->first->TryCancel();
      calls_.erase(it++);
    } else {
      ++it;
    }
  }
  return peers;
}

}  // namespace beamwright::rpc
