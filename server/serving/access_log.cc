#include "server/serving/access_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/status/wire_status.h"

namespace beamwright::serving {

AccessLog::AccessLog(int one_of, std::function<void(const LogFields&)> write)
    : one_of_(one_of), write_(write == nullptr ? LogFieldsOfCall : std::move(write)) {}

void AccessLog::OnCall(const CallRecord& call) {
  // Counted apart, so that rare failures are not lost among many successes.
  std::atomic<int64_t>& count = call.status.ok() ? succeeded_ : failed_;
  if (count++ % one_of_ != 0) {
    return;
  }
  LogFields fields = {
      {"protocol", std::string(call.protocol)},
      {"method", std::string(call.method)},
      {"model", std::string(call.model)},
      {"version", std::string(call.version)},
      {"code", absl::StatusCodeToString(status::WireCode(call.status.code()))},
      {"sources", absl::StrCat(call.num_sources), true},
      {"ms", absl::StrFormat("%.3f", absl::ToDoubleMilliseconds(call.end - call.start)), true},
      {"queue_ms", absl::StrFormat("%.3f", call.queue_ms), true},
      {"compute_ms", absl::StrFormat("%.3f", call.compute_ms), true},
  };
  if (call.num_failed > 0) {
    fields.push_back({"failed_sources", absl::StrCat(call.num_failed), true});
  }
  if (!call.context.request_id.empty()) {
    fields.push_back({"request_id", call.context.request_id});
  }
  if (!call.context.traceparent.empty()) {
    fields.push_back({"traceparent", call.context.traceparent});
  }
  write_(fields);
}

}  // namespace beamwright::serving
