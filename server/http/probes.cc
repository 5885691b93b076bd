#include "server/http/probes.h"

#include "absl/strings/str_cat.h"

namespace beamwright::http {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";

HttpReply Text(int status, const std::string& text) { return {status, kText, text + "\n", {}}; }

}  // namespace

void Probes::Watch(const engine::Engine* engine) {
  absl::MutexLock lock(&mutex_);
  engine_ = engine;
}

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
  if (request.path == "/livez") {
    return Live();
  }
  if (request.path == "/startupz") {
    return state_.phase() == serving::Phase::kLoading ? Text(503, "loading models")
                                                      : Text(200, "ok");
  }
  return Ready();
}

HttpReply Probes::Live() const {
  absl::MutexLock lock(&mutex_);
  const absl::Duration turn = engine_ == nullptr ? absl::ZeroDuration() : engine_->load().turn;
  return turn > longest_turn_
             ? Text(503, absl::StrCat("the engine has not come round for ",
                                      absl::FormatDuration(absl::Trunc(turn, absl::Seconds(1)))))
             : Text(200, "ok");
}

HttpReply Probes::Ready() const {
  switch (state_.phase()) {
    case serving::Phase::kLoading:
      return Text(503, "loading models");
    case serving::Phase::kServing:
      return state_.ready() ? Live() : Text(503, "no model can serve");
    default:
      return Text(503, "shutting down");
  }
}

}  // namespace beamwright::http
