#include "server/serving/load_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/steady_time.h"

namespace beamwright::serving {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(50);

}  // namespace

LoadWatch::LoadWatch(absl::Duration timeout, std::function<bool()> stopped)
    : timeout_(timeout),
      thread_("bw-load-watch", kLookInterval,
              [this, end = SteadyNow() + timeout, stopped = std::move(stopped)] {
                if (interruption_.raised()) {
                  return;
                }
                is_late_ = SteadyNow() >= end;
                if (is_late_ || (stopped != nullptr && stopped())) {
                  interruption_.Raise();
                }
              }) {}

absl::Status LoadWatch::Check() const {
  if (!interruption_.raised()) {
    return absl::OkStatus();
  }
  return is_late_ ? absl::DeadlineExceededError(
                        absl::StrCat("its graphs did not come to an end in ",
                                     absl::FormatDuration(timeout_), " (load-timeout)"))
                  : absl::CancelledError("the server was stopped while the model was loading");
}

}  // namespace beamwright::serving
