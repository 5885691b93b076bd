// HTTP replies: answers, and errors in the form of each API. ErrorReply is that of our API and of
// Google's (code, status, message, details), V2ErrorReply that of Open Inference (a text); both
// have Retry-After where waiting helps, and WWW-Authenticate for 401. Refusal gives the error of
// requests that the listener refuses itself, before a handler sees them (too large, too slow,
// malformed).
//
// Admit makes the proof of a caller from the headers of a request and its client certificate.
#include "server/http/replies.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"
#include "server/http/message_json.h"
#include "server/serving/serving_state.h"

namespace beamwright::http {
namespace {

// The methods that any path takes.
constexpr char kMethods[] = "GET, HEAD, POST";

HttpReply Failure(const absl::Status& status, std::string body) {
  HttpReply reply;
  reply.status = status::HttpCode(status::WireCode(status.code()));
  reply.body = std::move(body);
  const absl::Duration wait = status::RetryAfter(status);
  if (wait != absl::InfiniteDuration() && (reply.status == 429 || reply.status == 503)) {
    // Whole seconds are all that HTTP has.
    const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(wait, absl::Seconds(1)));
    reply.headers.emplace_back("Retry-After", absl::StrCat(seconds));
  }
  if (reply.status == 401) {
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return reply;
}

// The member "details" of an error's object.
void WriteDetailsOf(const absl::Status& status, JsonWriter& json) {
  json.Key("details");
  WriteDetails(status::ToRpcStatus(status, status::Room::kBody), json);
}

}  // namespace

HttpReply JsonReply(const JsonWriter& json) {
  HttpReply reply;
  reply.body = json.text();
  return reply;
}

HttpReply MessageReply(const google::protobuf::Message& message) {
  absl::StatusOr<std::string> text = ProtobufJson(message);
  if (!text.ok()) {
    return ErrorReply(text.status());
  }
  HttpReply reply;
  reply.body = *std::move(text);
  reply.body += '\n';
  return reply;
}

HttpReply V2Reply(const google::protobuf::Message& message) {
  JsonWriter json;
  WriteMessage(message, json);
  return JsonReply(json);
}

HttpReply ErrorReply(const absl::Status& status) {
  const absl::StatusCode code = status::WireCode(status.code());
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("code").Int(static_cast<int>(code));
  json.Key("status").String(absl::StatusCodeToString(code));
  json.Key("message").String(status::WireMessage(status));
  WriteDetailsOf(status, json);
  json.EndObject().EndObject();
  return Failure(status, json.text() + "\n");
}

HttpReply V2ErrorReply(const absl::Status& status) {
  JsonWriter json;
  json.BeginObject().Key("error").String(status::WireMessage(status));
  WriteDetailsOf(status, json);
  json.EndObject();
  return Failure(status, json.text() + "\n");
}

absl::StatusOr<access::Identity> Admit(const access::Access& access, const HttpRequest& request) {
  return Admit(access, request, request.header(access::kAuthorizationHeader));
}

absl::StatusOr<access::Identity> Admit(const access::Access& access, const HttpRequest& request,
                                       const std::string& authorization) {
  const std::string tenant = request.header(access::kTenantHeader);
  const std::string priority = request.header(access::kPriorityHeader);
  access::Proof proof{authorization, tenant, {request.peers.begin(), request.peers.end()}};
  proof.priority = priority;
  return access.Admit(proof, access::RolesForPath(request.method, request.path),
                      absl::StrCat(request.method, " ", request.path));
}

HttpReply ErrorReplyFor(const std::string& path, const absl::Status& status) {
  return absl::StartsWith(path, "/v1/") ? ErrorReply(status) : V2ErrorReply(status);
}

absl::Status WrongMethod(const char* allowed) {
  return status::WithReason(
      absl::UnimplementedError(absl::StrCat("this path takes ", allowed, " only")),
      status::reason::kWrongMethod);
}

HttpReply WrongMethodReply(const std::string& path, const char* allowed) {
  HttpReply reply = ErrorReplyFor(path, WrongMethod(allowed));
  reply.status = 405;
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

absl::Status Refusal(int http_status) {
  switch (http_status) {
    case 405:
      return WrongMethod(kMethods);
    case 408:
      return status::WithReason(
          absl::DeadlineExceededError("the request took too long to arrive as a whole"),
          status::reason::kTooSlow);
    case 413:
      return status::WithReason(
          Invalid(
              "the body is larger than this server takes (http-max-body-bytes; for transcriptions "
              "26 MiB, if that is more)"),
          status::reason::kTooLarge);
    case 414:
      return status::WithReason(Invalid("the path is too long"), status::reason::kTooLarge);
    case 415:
      return Invalid("Content-Encoding is not supported; send the body as it is");
    case 431:
      return status::WithReason(Invalid("the headers are larger than this server takes"),
                                status::reason::kTooLarge);
    case 503:
      return serving::TooManyConnections();
    default:
      return Invalid(
          "the request is malformed, has no or several headers Host, or does not say once and "
          "clearly how long it is (Content-Length in digits, or Transfer-Encoding: chunked; with "
          "POST only)");
  }
}

HttpReply RefusalReply(const std::string& path, int http_status) {
  if (http_status == 405) {
    return WrongMethodReply(path, kMethods);
  }
  HttpReply reply = ErrorReplyFor(path, Refusal(http_status));
  reply.status = http_status;
  return reply;
}

serving::CallContext ContextOf(const HttpRequest& request) {
  return {request.header("x-request-id"), request.header("traceparent")};
}

serving::Caller CallerOf(const HttpRequest& request, const Asked& asked,
                         std::shared_ptr<engine::CancelFlag> cancelled) {
  serving::Caller caller{asked.method, SteadyNow() + asked.timeout, std::move(cancelled)};
  caller.context = ContextOf(request);
  caller.tenant = asked.identity.tenant;
  caller.priority = asked.identity.priority;
  return caller;
}

}  // namespace beamwright::http
