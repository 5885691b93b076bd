#include "server/http/probes.h"

namespace beamwright::http {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";

HttpReply Text(int status, const std::string& text) { return {status, kText, text + "\n", {}}; }

}  // namespace

bool Probes::Knows(const std::string& path) {
  return path == "/livez" || path == "/readyz" || path == "/healthz" || path == "/startupz" ||
         path == "/metrics";
}

HttpReply Probes::Handle(const HttpRequest& request) const {
  if (!Knows(request.path)) {
    return Text(404, "there are /livez, /readyz, /startupz, /healthz and /metrics");
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return Text(405, "only GET");
  }
  if (request.path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_.Text(), {}};
  }
  const serving::Health health = state_.health();
  const bool good = request.path == "/livez"      ? health.live
                    : request.path == "/startupz" ? health.started
                                                  : health.ready;
  return good ? Text(200, "ok") : Text(503, health.reason);
}

std::optional<HttpReply> Probes::HandleAtOnce(const HttpRequest& request) const {
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  if (!is_read || !Knows(request.path) || request.path == "/metrics") {
    return std::nullopt;
  }
  return Handle(request);
}

}  // namespace beamwright::http
