#include "server/http/probes.h"

#include <utility>

#include "ops/base/status.h"
#include "ops/base/steady_time.h"

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

namespace {

// Connections beyond the limit that have their grace; with more than that none has it.
constexpr int kYoungConnections = 512;
// Kept for probes where the process has no file left.
constexpr int kSpareFiles = 16;
// A probe has no larger head.
constexpr size_t kMaxProbeHead = 16 << 10;

}  // namespace

// All who ask while metrics are written share the next text. Used by the listener's one worker.
class ProbeListener::LastMetrics {
 public:
  explicit LastMetrics(const Probes& probes) : probes_(probes) {}

  HttpReply Get(const HttpRequest& request) {
    if (begun_ <= request.arrived) {
      begun_ = SteadyNow();
      reply_ = probes_.Handle(request);
    }
    return reply_;
  }

 private:
  const Probes& probes_;
  absl::Time begun_ = absl::InfinitePast();
  HttpReply reply_;
};

ProbeListener::ProbeListener() = default;
ProbeListener::~ProbeListener() = default;

absl::StatusOr<std::unique_ptr<ProbeListener>> ProbeListener::Start(const std::string& address,
                                                                    const Probes& probes,
                                                                    int max_connections,
                                                                    absl::Duration grace) {
  std::unique_ptr<ProbeListener> listener(new ProbeListener);
  listener->metrics_ = std::make_unique<LastMetrics>(probes);
  ListenerOptions options;
  options.address = address;
  options.threads = 1;
  options.max_waiting = max_connections + kYoungConnections;
  options.max_head_bytes = kMaxProbeHead;
  options.max_body_bytes = 0;
  options.takes_post = false;
  options.compresses = false;
  options.bounds = {max_connections, grace, kYoungConnections};
  options.spare_files = kSpareFiles;
  options.thread_name = "bw-probes";
  options.at_once = [&probes](const HttpRequest& request) -> std::optional<HttpReply> {
    if (request.path == "/metrics") {
      return std::nullopt;
    }
    return probes.Handle(request);
  };
  BW_ASSIGN_OR_RETURN(
      listener->listener_,
      Listener::Start(options, [metrics = listener->metrics_.get()](const HttpRequest& request) {
        return metrics->Get(request);
      }));
  return listener;
}

}  // namespace beamwright::http
