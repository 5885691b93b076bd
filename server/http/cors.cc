#include "server/http/cors.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

// "example.org" of "https://example.org:8443" and of "example.org:8000".
absl::string_view HostOf(absl::string_view place) {
  if (const size_t scheme = place.find("://"); scheme != absl::string_view::npos) {
    place.remove_prefix(scheme + 3);
  }
  const size_t bracket = place.rfind(']');  // of an IPv6 address
  const size_t colon = place.rfind(':');
  const bool has_port =
      colon != absl::string_view::npos && (bracket == absl::string_view::npos || colon > bracket);
  return has_port ? place.substr(0, colon) : place;
}

// Whether no name server answers for it: an IP address, localhost and names below it (RFC 6761).
bool IsLocalName(absl::string_view host) {
  in_addr address{};
  return absl::StartsWith(host, "[") || absl::EqualsIgnoreCase(host, "localhost") ||
         absl::EndsWithIgnoreCase(host, ".localhost") ||
         inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

// Whether the origin is a browser's extension, which its user has installed: no page has such one.
bool IsExtension(absl::string_view origin) {
  return absl::StartsWith(origin, "moz-extension://") ||
         absl::StartsWith(origin, "chrome-extension://") ||
         absl::StartsWith(origin, "safari-web-extension://");
}

absl::Status OtherOrigin() {
  return absl::PermissionDeniedError(
      "pages of this origin may not call; http-cors-origins names those that may");
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

bool Cors::Admits(const HttpRequest& request) const {
  const std::string origin = request.header("Origin");
  // A browser's own word counts where a proxy has replaced Host; no page can write this field.
  return origin.empty() || origins_.count(origin) > 0 || IsExtension(origin) ||
         absl::EqualsIgnoreCase(HostOf(origin), HostOf(request.header("Host"))) ||
         request.header("Sec-Fetch-Site") == "same-origin";
}

absl::Status Cors::Check(const HttpRequest& request, bool has_local_name) const {
  const std::string host(HostOf(request.header("Host")));
  const bool is_allowed = std::any_of(
      origins_.begin(), origins_.end(),
      [&host](const std::string& origin) { return absl::EqualsIgnoreCase(HostOf(origin), host); });
  if (has_local_name && !host.empty() && !is_allowed && !IsLocalName(host)) {
    return absl::PermissionDeniedError(
        "Host is neither localhost nor an IP address, nor that of an origin of http-cors-origins");
  }
  const bool only_reads =
      request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
  return only_reads || Admits(request) ? absl::OkStatus() : OtherOrigin();
}

HttpReply Cors::Preflight(const HttpRequest& request) const {
  if (origins_.count(request.header("Origin")) == 0) {
    return ErrorReplyFor(request.path, OtherOrigin());
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
