#include "server/http/cors.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "server/http/replies.h"

namespace beamwright::http {
namespace {

constexpr char kAllowedHeaders[] =
    "authorization, content-type, beamwright-priority, beamwright-tenant, "
    "inference-header-content-length, traceparent, x-request-id";
// In addition to those that pages may always read.
constexpr char kReadableHeaders[] = "inference-header-content-length, retry-after, x-request-id";
constexpr char kForgottenAfter[] = "600";  // seconds that a browser remembers a preflight

// scheme://host or scheme://host:port, in lower case, as browsers write it.
bool IsOrigin(absl::string_view text) {
  int default_port = 80;
  if (absl::ConsumePrefix(&text, "https://")) {
    default_port = 443;
  } else if (!absl::ConsumePrefix(&text, "http://")) {
    return false;
  }
  const size_t colon = text.rfind(':');
  const size_t bracket = text.rfind(']');  // of an IPv6 address, whose colons stand before it
  if (colon != absl::string_view::npos && (bracket == absl::string_view::npos || colon > bracket)) {
    int port = 0;
    if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 || port > 65535 ||
        port == default_port) {
      return false;
    }
    text = text.substr(0, colon);
  }
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           absl::string_view("-._[]:").find(c) != absl::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<Cors> Cors::Make(const std::vector<std::string>& origins) {
  Cors cors;
  for (const std::string& origin : origins) {
    if (!IsOrigin(origin)) {
      return Invalid("'", origin,
                     "' is not an origin as browsers send it, such as "
                     "https://app.example.org or http://localhost:3000: scheme and host in lower "
                     "case, the port where it is not the scheme's own, nothing behind it");
    }
    cors.origins_.insert(origin);
  }
  return cors;
}

HttpReply Cors::Preflight(const HttpRequest& request) const {
  if (origins_.count(request.header("Origin")) == 0) {
    return ErrorReplyFor(request.path,
                         absl::PermissionDeniedError("pages of this origin may not call the API; "
                                                     "http-cors-origins names those that may"));
  }
  HttpReply reply;
  reply.status = 204;
  reply.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST"},
                   {"Access-Control-Allow-Headers", kAllowedHeaders},
                   {"Access-Control-Max-Age", kForgottenAfter}};
  AddHeaders(request, reply);
  return reply;
}

void Cors::AddHeaders(const HttpRequest& request, HttpReply& reply) const {
  if (!enabled()) {
    return;
  }
  // The answer differs by it: caches in between must not mix them up.
  reply.headers.emplace_back("Vary", "Origin");
  if (const std::string origin = request.header("Origin"); origins_.count(origin) > 0) {
    reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
    reply.headers.emplace_back("Access-Control-Expose-Headers", kReadableHeaders);
  }
}

}  // namespace beamwright::http
