// IncomingCalls: the calls whose request has not come whole yet. gRPC holds what came of it, and
// nothing bounds the sum over all calls.
#ifndef BEAMWRIGHT_SERVER_RPC_INCOMING_CALLS_H_
#define BEAMWRIGHT_SERVER_RPC_INCOMING_CALLS_H_

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::rpc {

// A call that waits for its request.
class IncomingCall {
 public:
  virtual ~IncomingCall() = default;
  // Ends the call, which is not incoming any more.
  virtual void Refuse(const absl::Status& status) = 0;
};

// Thread-safe. The one that takes a call out goes on with it: the request or the refusal,
// never both.
class IncomingCalls {
 public:
  void Add(IncomingCall& call);
  // Whether the call was still there.
  bool Take(IncomingCall& call);
  // Refuses the calls that came before `time`; returns how many. The others' requests may be on
  // their way whole.
  int RefuseOlderThan(absl::Time time, const absl::Status& status);
  // As Take, where the request of the call has come (`ok`); where its client went before that, the
  // call is refused and counted. True: it goes on.
  bool Arrived(IncomingCall& call, bool ok);
  int64_t num_given_up() const { return num_given_up_; }

 private:
  std::atomic<int64_t> num_given_up_{0};
  absl::Mutex mutex_;
  std::unordered_map<IncomingCall*, absl::Time> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_INCOMING_CALLS_H_
