// Tracer: spans of calls, in OpenTelemetry's terms. A call that comes with a W3C traceparent
// belongs to its trace and is recorded if the caller's is; of the others a share is recorded, each
// as a separate trace. Where spans go is the exporter's business (rpc/otlp_exporter.h).
#ifndef BEAMWRIGHT_SERVER_SERVING_TRACER_H_
#define BEAMWRIGHT_SERVER_SERVING_TRACER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "opentelemetry/proto/trace/v1/trace.pb.h"
#include "server/serving/caller.h"

namespace beamwright::serving {

using Span = opentelemetry::proto::trace::v1::Span;

struct TraceParent {
  std::string trace_id;  // 16 bytes
  std::string span_id;   // 8 bytes
  bool sampled = false;
};
// Of a traceparent header ("00-<32 hex>-<16 hex>-<2 hex>"); nothing if it is invalid.
std::optional<TraceParent> ParseTraceParent(absl::string_view header);

// Thread-safe.
class Tracer : public CallObserver {
 public:
  using Sink = std::function<void(std::vector<Span>)>;
  // rate: the share of calls without a traceparent that are recorded, 0 to 1. `sink` takes the
  // spans of a call, on any thread, and must return at once.
  Tracer(double rate, Sink sink) : rate_(rate), sink_(std::move(sink)) {}

  // Where a call may turn out to be recorded.
  bool WantsTimelines(const CallContext& context) const override;
  // A span for the call, and below it for each source that has a timeline one for the time in the
  // queue, for its encoding, for the search (with an event every few steps) and for the writing of
  // its answer, as far as it came.
  void OnCall(const CallRecord& call) override;

 private:
  const double rate_;
  const Sink sink_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_TRACER_H_
