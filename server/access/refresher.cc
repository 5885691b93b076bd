#include "server/access/refresher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace beamwright::access {
namespace {

// Or the thread would never sleep.
constexpr absl::Duration kShortest = absl::Milliseconds(10);

}  // namespace

Refresher::Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh)
    : interval_(std::max(interval, kShortest)),
      refresh_(std::move(refresh)),
      last_errors_(refresh_.size()),
      thread_("bw-refresher", interval_, [this] { Look(); }) {}

void Refresher::Look() {
  for (size_t i = 0; i < refresh_.size(); ++i) {
    const absl::Status status = refresh_[i]();
    std::string error(status.message());
    if (error != last_errors_[i] && !error.empty()) {
      spdlog::error("{}; what was read before holds on", error);
    }
    last_errors_[i] = std::move(error);
  }
}

}  // namespace beamwright::access
