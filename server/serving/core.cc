#include "server/serving/core.h"

#include <algorithm>

#include "engine/status/wire_status.h"
#include "ops/base/steady_time.h"

namespace beamwright::serving {
namespace {

// Enough to see where a call's time goes.
constexpr int kMaxTimelines = 8;

}  // namespace

google::rpc::Status RefusalCache::OnWire(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) {
    return status::ToRpcStatus(status);
  }
  absl::MutexLock lock(&mutex_);
  if (status != last_) {
    last_ = status;
    last_on_wire_ = status::ToRpcStatus(status);
  }
  return last_on_wire_;
}

void CallCounter::Count(const Caller& caller, const engine::DecodeModel* model,
                        const absl::Status& status, absl::Time started, const CallWork& work) {
  const absl::Time now = SteadyNow();
  metrics_.CountCall(caller.method, model, status.code(), now - started);
  for (CallObserver* observer : observers_) {
    observer->OnCall({ProtocolOf(caller.method), NameOf(caller.method), caller.context,
                      model == nullptr ? "" : model->name(),
                      model == nullptr ? "" : model->version(), status, started, now,
                      work.num_sources, work.response, work.timelines, work.queue_ms,
                      work.compute_ms, work.num_failed});
  }
}

void CallCounter::Refuse(const absl::Status& status, const Caller& caller) {
  Count(caller, nullptr, status, SteadyNow(), {});
  metrics_.CountRejection(status);
}

std::vector<engine::Timeline> CallCounter::MakeTimelines(const CallContext& context,
                                                         int num_sources) const {
  const bool wanted =
      std::any_of(observers_.begin(), observers_.end(),
                  [&](const CallObserver* observer) { return observer->WantsTimelines(context); });
  return std::vector<engine::Timeline>(
      static_cast<size_t>(wanted ? std::min(num_sources, kMaxTimelines) : 0));
}

}  // namespace beamwright::serving
