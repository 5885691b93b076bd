// What is known of a call, whatever the protocol: its method, who calls, and the record of its end
// for access log and traces.
#ifndef BEAMWRIGHT_SERVER_SERVING_CALLER_H_
#define BEAMWRIGHT_SERVER_SERVING_CALLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/request/tenant.h"
#include "include/beamwright/engine.h"

namespace beamwright::serving {

// Method: what a call is called in metrics, in the access log and in spans; and why a call was
// refused, in a word.

// The calls that decode, by protocol: gRPC's, HTTP's, WebSocket's. "Other" stands for all calls
// that do not decode, and for calls rejected before their method was known; only refused ones
// are counted.
enum class Method {
  kDecode,
  kStreamDecode,
  kScore,
  kAlign,
  kModelInfer,
  kModelStreamInfer,
  kRecognize,
  kTranslate,
  kStreamTranslate,
  kGrpcOther,
  kHttpDecode,
  kHttpStreamDecode,
  kHttpScore,
  kHttpAlign,
  kHttpInfer,
  kHttpTranscribe,
  kHttpTranslate,
  kHttpOther,
  kWebSocketRecognize,
};
// "grpc", "http" or "websocket", and the method's name in it.
absl::string_view ProtocolOf(Method method);
absl::string_view NameOf(Method method);

// Why a call was not decoded at all, as docs/operations.md lists it; empty for what failed on its
// way.
std::string RejectionReason(const absl::Status& status);

// CallRecord: what is known of a call when it is answered, for those who keep accounts of calls:
// the access log and traces.

// What a client says of its call besides the request: metadata of gRPC, headers of HTTP.
struct CallContext {
  std::string request_id;   // x-request-id
  std::string traceparent;  // W3C Trace Context
};

// Views live for as long as the observer is called.
struct CallRecord {
  absl::string_view protocol;  // "grpc", "http" or "websocket"
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

// Who calls, over which protocol, and how long they wait.

struct Caller {
  Method method;
  absl::Time deadline = absl::InfiniteFuture();  // by SteadyNow
  // Of a client that may give up; it is set when the client has gone. May be
  // null.
  std::shared_ptr<const engine::CancelFlag> cancelled;
  // The call fails with the first source that fails, where a protocol has no answer for a part of
  // them.
  bool all_or_nothing = false;
  CallContext context = {};
  // As in engine::CallOptions; for a call with one source.
  std::function<void(engine::Progress)> progress;
  bool wants_provisional = false;
  // Whose share of the engine the call takes; null: that of callers without a name.
  engine::TenantPtr tenant;
  // The connection, whose calls take turns with those of others as one client's do
  // (engine/queue/fair_queue.h): a number that hardly another open one has. 0: the call has turns
  // alone.
  uint32_t connection = 0;
  // From engine::kHighestPriority to engine::kLowestPriority, within the tenant.
  int priority = engine::kNormalPriority;
  // Turns the response into the protocol's own form before the call is counted: where it fails, the
  // call fails with it. May be null.
  std::function<absl::Status(const v1::DecodeResponse&)> convert;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_CALLER_H_
