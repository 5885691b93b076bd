// CallRecord: what is known of a call when it is answered, for those who keep accounts of calls:
// the access log and traces.
#ifndef BEAMWRIGHT_SERVER_SERVING_CALL_RECORD_H_
#define BEAMWRIGHT_SERVER_SERVING_CALL_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/request/timeline.h"

namespace beamwright::serving {

// What a client says of its call besides the request: metadata of gRPC, headers of HTTP.
struct CallContext {
  std::string request_id;   // x-request-id
  std::string traceparent;  // W3C Trace Context
};

// Views live for as long as the observer is called.
struct CallRecord {
  absl::string_view protocol;  // "grpc" or "http"
  absl::string_view method;
  const CallContext& context;
  absl::string_view model;  // empty if none was found
  absl::string_view version;
  const absl::Status& status;
  absl::Time start;
  absl::Time end;
  int num_sources;
  const v1::DecodeResponse* response;  // of Decode, as far as it came; null for other methods
  // Of its first sources, where an observer wanted them.
  absl::Span<const engine::Timeline> timelines = {};
  // Of the sources that were answered, together.
  double queue_ms = 0;
  double compute_ms = 0;
  // Of the sources; all of them where the call failed for that.
  int num_failed = 0;
};

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Asked when a call is accepted: whether the timelines of its sources are to be kept.
  virtual bool WantsTimelines(const CallContext& /*context*/) const { return false; }
  // Called on any thread; must return at once.
  virtual void OnCall(const CallRecord& call) = 0;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_CALL_RECORD_H_
