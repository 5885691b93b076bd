// CallCounter: every call that is answered is counted here, and those who keep an account of calls
// (access log, tracer) are notified.
#ifndef BEAMWRIGHT_SERVER_SERVING_CALL_COUNTER_H_
#define BEAMWRIGHT_SERVER_SERVING_CALL_COUNTER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/serving/caller.h"
#include "server/serving/metrics.h"

namespace beamwright::serving {

// What was done for a call, as in CallRecord.
struct CallWork {
  int num_sources = 0;
  const v1::DecodeResponse* response = nullptr;
  absl::Span<const engine::Timeline> timelines = {};
  double queue_ms = 0;
  double compute_ms = 0;
  int num_failed = 0;
};

// Thread-safe but for Observe. The metrics must outlive it.
class CallCounter {
 public:
  explicit CallCounter(Metrics& metrics) : metrics_(metrics) {}

  // Calls `observer` for every call that is answered. Before the first call; it must outlive this.
  void Observe(CallObserver* observer) { observers_.push_back(observer); }
  // `model` is null if the call names none that is served.
  void Count(const Caller& caller, const engine::DecodeModel* model, const absl::Status& status,
             absl::Time started, const CallWork& work);
  // A call that is refused before it is read.
  void Refuse(const absl::Status& status, const Caller& caller);
  // For the engine to fill in, of the first of these sources; none unless an observer wants them.
  std::vector<engine::Timeline> MakeTimelines(const CallContext& context, int num_sources) const;

 private:
  Metrics& metrics_;
  std::vector<CallObserver*> observers_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_CALL_COUNTER_H_
