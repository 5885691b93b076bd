#include "server/serving/sources_call.h"

#include "engine/model/parts.h"

namespace beamwright::serving {

absl::Status CheckSources(Core& core, const engine::DecodeModel& model, int num_sources,
                          const char* verb, absl::Time now) {
  BW_RETURN_IF_ERROR(engine::CheckNumSources(num_sources, verb));
  return core.quarantine().Check(model, now);
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

void Reply(Core& core, int num_sources, std::function<void()> reply) {
  if (num_sources == 1 && core.engine().idle()) {
    reply();
  } else {
    core.replies().Post(std::move(reply));
  }
}

}  // namespace beamwright::serving
