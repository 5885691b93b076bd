// Probes: what an orchestrator and a scraper ask, on a listener that needs no model and no
// credentials: /livez, /readyz, /startupz, /healthz (as /readyz) and /metrics.
#ifndef BEAMWRIGHT_SERVER_HTTP_PROBES_H_
#define BEAMWRIGHT_SERVER_HTTP_PROBES_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/http/listener.h"
#include "server/serving/metrics.h"
#include "server/serving/serving_state.h"

namespace beamwright::http {

// Thread-safe. State and metrics must outlive it.
class Probes {
 public:
  // longest_turn: an engine that has work and has not come round for longer hangs.
  Probes(const serving::ServingState& state, const serving::Metrics& metrics,
         absl::Duration longest_turn)
      : state_(state), metrics_(metrics), longest_turn_(longest_turn) {}

  // From now on /livez looks at the engine too; null ends that, and waits for a probe that does.
  void Watch(const engine::Engine* engine);

  // True for the paths that Handle answers.
  static bool Knows(const std::string& path);
  // 200, or 503 with the reason; 404 for other paths, 405 for other methods than GET and HEAD.
  HttpReply Handle(const HttpRequest& request) const;

 private:
  HttpReply Live() const;
  HttpReply Ready() const;

  const serving::ServingState& state_;
  const serving::Metrics& metrics_;
  const absl::Duration longest_turn_;
  mutable absl::Mutex mutex_;
  const engine::Engine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PROBES_H_
