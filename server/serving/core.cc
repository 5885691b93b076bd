// What is shared by all calls: refusals written once, the count of calls for metrics, log and
// traces, and what a call asks of the engine.
#include "server/serving/core.h"

#include <algorithm>

#include "engine/model/parts.h"
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

bool TakeLongToRead(const engine::DecodeModel& model, const v1::DecodeOptions& options) {
  const auto has_pattern = [](const v1::DecodeOptions& of) {
    return of.has_regex() || of.has_json_schema();
  };
  // The pattern of the default options was compiled at load, for answers with the default prefix.
  const bool compiles = has_pattern(options) || (options.has_target_prefix() &&
                                                 has_pattern(model.config().default_options()));
  return compiles && model.parts().resolved_options.Find(options.SerializeAsString()) == nullptr;
}

engine::CallOptions EngineOptions(Core& core, const Caller& caller) {
  engine::CallOptions options;
  options.cancelled = caller.cancelled;
  options.deadline = caller.deadline;
  options.tenant = caller.tenant;
  options.priority = caller.priority;
  options.progress = caller.progress;
  options.num_provisional = caller.wants_provisional ? 1 : 0;
  options.call = core.NextCall();
  options.client = caller.connection;
  return options;
}

}  // namespace beamwright::serving
