#include "server/http/replies.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/base/status.h"
#include "server/http/json.h"
#include "server/serving/serving_state.h"
#include "server/serving/wire_status.h"
#include "server/status/error_details.h"

namespace beamwright::http {
namespace {

// That any path takes.
constexpr char kMethods[] = "GET, HEAD, POST";

HttpReply Failure(const absl::Status& status, std::string body) {
  HttpReply reply;
  reply.status = serving::HttpCode(serving::WireCode(status.code()));
  reply.body = std::move(body);
  const absl::Duration wait = serving::RetryAfter(status);
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

std::string DetailsOf(const absl::Status& status) {
  return serving::DetailsJson(serving::ToRpcStatus(status, serving::Room::kBody));
}

}  // namespace

HttpReply MessageReply(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  HttpReply reply;
  const auto status = google::protobuf::util::MessageToJsonString(message, &reply.body, options);
  if (!status.ok()) {
    return ErrorReply(absl::InternalError("the answer can't be written as JSON"));
  }
  // Details of errors have protobuf's own names, which libraries look for, as DetailsJson writes
  // them. A text would have its quotes escaped: these are members.
  if (absl::StrContains(reply.body, "\"@type\":")) {
    absl::StrReplaceAll({{"\"field_violations\":", "\"fieldViolations\":"},
                         {"\"retry_delay\":", "\"retryDelay\":"}},
                        &reply.body);
  }
  reply.body += '\n';
  return reply;
}

HttpReply V2Reply(const google::protobuf::Message& message) {
  HttpReply reply;
  AppendMessage(message, reply.body);
  return reply;
}

HttpReply ErrorReply(const absl::Status& status) {
  const absl::StatusCode code = serving::WireCode(status.code());
  std::string body = absl::StrCat("{\"error\":{\"code\":", static_cast<int>(code), ",\"status\":\"",
                                  absl::StatusCodeToString(code), "\",\"message\":");
  AppendQuoted(serving::WireMessage(status), body);
  absl::StrAppend(&body, ",\"details\":", DetailsOf(status), "}}\n");
  return Failure(status, std::move(body));
}

HttpReply V2ErrorReply(const absl::Status& status) {
  std::string body = "{\"error\":";
  AppendQuoted(serving::WireMessage(status), body);
  absl::StrAppend(&body, ",\"details\":", DetailsOf(status), "}\n");
  return Failure(status, std::move(body));
}

absl::StatusOr<access::Identity> Admit(const access::Access& access, const HttpRequest& request) {
  const std::string authorization = request.header(access::kAuthorizationHeader);
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
      absl::UnimplementedError(absl::StrCat("only ", allowed, " is allowed here")),
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
      return status::WithReason(Invalid("the body is larger than this server takes"),
                                status::reason::kTooLarge);
    case 414:
      return status::WithReason(Invalid("the path is too long"), status::reason::kTooLarge);
    case 415:
      return Invalid("Content-Encoding is not supported; send the body as it is");
    case 503:
      return serving::TooManyConnections();
    default:
      return Invalid(
          "the request is malformed, or does not say once and clearly how long it is "
          "(Content-Length in digits, or Transfer-Encoding: chunked; with POST only)");
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

}  // namespace beamwright::http
