// Probes: what an orchestrator and a scraper ask, on a listener that needs no model and no
// credentials: /livez, /readyz, /startupz, /healthz (as /readyz) and /metrics.
#ifndef BEAMWRIGHT_SERVER_HTTP_PROBES_H_
#define BEAMWRIGHT_SERVER_HTTP_PROBES_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/listener.h"
#include "server/serving/metrics.h"
#include "server/serving/serving_state.h"

namespace beamwright::http {

// Thread-safe. State and metrics must outlive it.
class Probes {
 public:
  Probes(const serving::ServingState& state, const serving::Metrics& metrics)
      : state_(state), metrics_(metrics) {}

  // True for the paths that Handle answers.
  static bool Knows(const std::string& path);
  // 200, or 503 with the reason; 404 for other paths, 405 for other methods than GET and HEAD. All
  // but /metrics wait for nothing.
  HttpReply Handle(const HttpRequest& request) const;
  // As Handle, where a probe is read; nothing for all else and for /metrics.
  std::optional<HttpReply> HandleAtOnce(const HttpRequest& request) const;

 private:
  const serving::ServingState& state_;
  const serving::Metrics& metrics_;
};

// ProbeListener: HTTP/1.1 for probes and scrapers. One thread serves all connections and waits for
// none of them (server/http/listener.h), and it serves no other listener, so a probe is answered in
// milliseconds whatever others do on this port or another. Where there are too many connections,
// the one that has been quiet for longest makes room, but not before it had time to ask. Where the
// process has no file left, a few are kept for probes. Metrics are written on a second thread, once
// for all who ask meanwhile, so a crowd of scrapers holds no probe up either.

class ProbeListener {
 public:
  // Answers `probes`, which must outlive it, at "host:port", "[::]:port"; port 0 takes a free one.
  // Errors as BindSocket's. At most max_connections are open that have been quiet for longer than
  // `grace`, and 512 more.
  static absl::StatusOr<std::unique_ptr<ProbeListener>> Start(
      const std::string& address, const Probes& probes, int max_connections = 128,
      absl::Duration grace = absl::Milliseconds(500));
  // Closes all connections.
  ~ProbeListener();
  ProbeListener(const ProbeListener&) = delete;
  ProbeListener& operator=(const ProbeListener&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return listener_->address(); }
  int port() const { return listener_->port(); }

 private:
  class LastMetrics;

  ProbeListener();
  std::unique_ptr<LastMetrics> metrics_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PROBES_H_
