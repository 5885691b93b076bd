// Probes: what an orchestrator and a scraper ask, on a listener that needs no model and no
// credentials: /livez, /readyz, /startupz, /healthz (as /readyz) and /metrics.
#ifndef BEAMWRIGHT_SERVER_HTTP_PROBES_H_
#define BEAMWRIGHT_SERVER_HTTP_PROBES_H_

#include <optional>
#include <string>

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

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PROBES_H_
