// Who calls, over which protocol, and how long they wait.
#ifndef BEAMWRIGHT_SERVER_SERVING_CALLER_H_
#define BEAMWRIGHT_SERVER_SERVING_CALLER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "include/beamwright/engine.h"
#include "server/serving/call_record.h"
#include "server/serving/method.h"

namespace beamwright::serving {

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
