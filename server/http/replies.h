// Replies of the two HTTP families, and how a handler waits for an answer.
#ifndef BEAMWRIGHT_SERVER_HTTP_REPLIES_H_
#define BEAMWRIGHT_SERVER_HTTP_REPLIES_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "ops/base/json_writer.h"
#include "server/access/access.h"
#include "server/http/listener.h"
#include "server/serving/core.h"

namespace beamwright::http {

HttpReply JsonReply(const JsonWriter& json);
// A message in protobuf's JSON form.
HttpReply MessageReply(const google::protobuf::Message& message);
// A message as the Open Inference Protocol writes it.
HttpReply V2Reply(const google::protobuf::Message& message);

// {"error": {"code": 3, "status": "INVALID_ARGUMENT", "message": "...", "details": [...]}}, as
// Google's APIs have it.
HttpReply ErrorReply(const absl::Status& status);
// {"error": "...", "details": [...]}: the Open Inference Protocol's form, and the same details.
HttpReply V2ErrorReply(const absl::Status& status);

// Either, by what `path` belongs to.
HttpReply ErrorReplyFor(const std::string& path, const absl::Status& status);
// 405.
absl::Status WrongMethod(const char* allowed);
HttpReply WrongMethodReply(const std::string& path, const char* allowed);
// Why the listener refuses a request by itself, of the HTTP status that it answers: 400, 405, 408,
// 413, 414, 415, 431, 503; and that answer.
absl::Status Refusal(int http_status);
HttpReply RefusalReply(const std::string& path, int http_status);

// What the headers say of a call.
serving::CallContext ContextOf(const HttpRequest& request);

// Who asks, if they may: by the headers Authorization and Beamwright-Tenant and by the certificate.
// Errors as Access::Admit's.
absl::StatusOr<access::Identity> Admit(const access::Access& access, const HttpRequest& request);

// What is asked, and for whom.
struct Asked {
  serving::Method method;
  access::Identity identity;
};

// Waits until `start` has called back with an answer. Meanwhile a client that hangs up cancels, and
// so does a server that ends.
template <typename Answer>
absl::StatusOr<Answer> WaitFor(
    const HttpRequest& request, const serving::ServingState& state, const Asked& asked,
    absl::Duration timeout,
    const std::function<void(const serving::Caller&, std::function<void(absl::StatusOr<Answer>)>)>&
        start) {
  constexpr absl::Duration kLook = absl::Milliseconds(100);
  const auto cancelled = std::make_shared<engine::CancelFlag>();
  absl::StatusOr<Answer> result;
  absl::Notification done;
  serving::Caller caller{asked.method, absl::Now() + timeout, cancelled};
  caller.context = ContextOf(request);
  caller.tenant = asked.identity.tenant;
  caller.priority = asked.identity.priority;
  start(caller, [&](absl::StatusOr<Answer> answer) {
    result = std::move(answer);
    done.Notify();
  });
  while (!done.WaitForNotificationWithTimeout(kLook)) {
    if (request.abandoned() || state.phase() == serving::Phase::kEnding) {
      cancelled->Cancel();
    }
  }
  return result;
}

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_REPLIES_H_
