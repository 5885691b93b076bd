#include "server/serving/signals.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/time/clock.h"
#include "server/serving/logging.h"

namespace beamwright::serving {
namespace {

// For what the log still has to say when the process ends at once.
constexpr absl::Duration kLastLines = absl::Milliseconds(100);

}  // namespace

StopSignals& StopSignals::Install() {
  // Leaked: the thread below outlives main.
  static StopSignals* signals = [] {
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    auto* created = new StopSignals;
    std::thread([created, set] {
      int number = 0;
      sigwait(&set, &number);
      created->interrupted_ = number == SIGINT;
      created->stopped_.Notify();
      const int exit_code = created->WaitForSecond(set) ? 1 : kExitHangs;
      FlushLog(kLastLines);
      _exit(exit_code);
    }).detach();
    return created;
  }();
  return *signals;
}

bool StopSignals::WaitForSecond(const sigset_t& set) const {
  const absl::Duration most = absl::Milliseconds(most_ms_.load());
  const absl::Time end = absl::Now() + most;
  for (absl::Duration left = most; left > absl::ZeroDuration(); left = end - absl::Now()) {
    const timespec timeout = absl::ToTimespec(std::min(left, absl::Hours(1)));
    if (sigtimedwait(&set, nullptr, &timeout) > 0) {
      return true;
    }
  }
  spdlog::critical("still not ended {} after the signal to stop: the process is ended",
                   absl::FormatDuration(most));
  return false;
}

}  // namespace beamwright::serving
