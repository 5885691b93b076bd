// Cors: pages of other origins that may call the HTTP API from a browser (Fetch Standard, section
// 3.2, "CORS protocol"). Without it browsers keep answers from such pages, and send no JSON on
// their behalf. Origins are named one by one; no cookie is ever read here, so credentials are not
// part of it: a page sends its token itself, in the header Authorization.
#ifndef BEAMWRIGHT_SERVER_HTTP_CORS_H_
#define BEAMWRIGHT_SERVER_HTTP_CORS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/listener.h"

namespace beamwright::http {

// Immutable, so thread-safe.
class Cors {
 public:
  // Each "https://app.example.org", with a port where it is not the scheme's own. InvalidArgument
  // names one that no browser would send, among them "*".
  static absl::StatusOr<Cors> Make(const std::vector<std::string>& origins);

  Cors() = default;  // no origin may

  bool enabled() const { return !origins_.empty(); }

  // Whether the request comes from no page, or from one of the request's own host or of an allowed
  // origin. A browser names the page's origin with all but plain GETs.
  bool Admits(const HttpRequest& request) const;
  // PermissionDenied if a page that may not call asks for more than to read. has_local_name: also
  // if Host is a name that a stranger could have pointed at this machine, which makes a page of
  // that name one of the same origin (DNS rebinding).
  absl::Status Check(const HttpRequest& request, bool has_local_name) const;

  // The question that a browser asks before a request with JSON or a token: OPTIONS. 204 with what
  // is allowed, or 403 for another origin.
  HttpReply Preflight(const HttpRequest& request) const;

  // Lets the browser show an answer to a page that may see it.
  void AddHeaders(const HttpRequest& request, HttpReply& reply) const;

 private:
  std::set<std::string> origins_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_CORS_H_
