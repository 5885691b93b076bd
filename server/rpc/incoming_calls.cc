#include "server/rpc/incoming_calls.h"

#include <vector>

#include "ops/base/steady_time.h"

namespace beamwright::rpc {

void IncomingCalls::Add(IncomingCall& call) {
  const absl::Time now = SteadyNow();
  absl::MutexLock lock(&mutex_);
  calls_.emplace(&call, now);
}

bool IncomingCalls::Take(IncomingCall& call) {
  absl::MutexLock lock(&mutex_);
  return calls_.erase(&call) > 0;
}

bool IncomingCalls::Arrived(IncomingCall& call, bool ok) {
  if (!Take(call)) {
    return false;
  }
  if (!ok) {
    ++num_given_up_;
    call.Refuse(absl::CancelledError("the call ended before its request had come"));
  }
  return ok;
}

int IncomingCalls::RefuseOlderThan(absl::Time time, const absl::Status& status) {
  std::vector<IncomingCall*> refused;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (it->second < time) {
        refused.push_back(it->first);
        it = calls_.erase(it);
      } else {
        ++it;
      }
    }
  }
  // A call lives until it is ended, and only who took it out ends it.
  for (IncomingCall* call : refused) {
    call->Refuse(status);
  }
  return static_cast<int>(refused.size());
}

}  // namespace beamwright::rpc
