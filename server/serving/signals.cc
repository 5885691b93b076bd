#include "server/serving/signals.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "ops/base/steady_time.h"
#include "server/serving/logging.h"

namespace beamwright::serving {
namespace {

// For what the log still has to say when the process ends at once.
constexpr absl::Duration kLastLines = absl::Milliseconds(100);

}  // namespace

StopSignals& StopSignals::Install() {
  // Leaked: the thread below outlives main.
  static StopSignals* signals = [] {
    for (const int ignored : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM}) {
      signal(ignored, SIG_IGN);
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    auto* created = new StopSignals;
    std::thread([created, set] {
      created->interrupted_ = created->WaitForFirst(set) == SIGINT;
      created->stopped_.Notify();
      const int exit_code = created->WaitForSecond(set) ? 1 : kExitHangs;
      FlushLog(kLastLines);
      _exit(exit_code);
    }).detach();
    return created;
  }();
  return *signals;
}

int StopSignals::WaitForFirst(const sigset_t& set) {
  for (;;) {
    int number = 0;
    sigwait(&set, &number);
    if (number != SIGHUP) {
      return number;
    }
    Reload();
  }
}

void StopSignals::OnReload(std::function<void()> reload) {
  absl::MutexLock lock(&reload_mutex_);
  reload_ = std::move(reload);
}

void StopSignals::Reload() {
  absl::MutexLock lock(&reload_mutex_);
  if (reload_ == nullptr) {
    spdlog::info("SIGHUP: nothing is loaded yet, so there is nothing to read again");
    return;
  }
  spdlog::info("SIGHUP: files of tokens, tenants and TLS are read again, and polled folders");
  reload_();
}

bool StopSignals::WaitForSecond(const sigset_t& set) const {
  const absl::Duration most = absl::Milliseconds(most_ms_.load());
  const absl::Time end = SteadyNow() + most;
  for (absl::Duration left = most; left > absl::ZeroDuration(); left = end - SteadyNow()) {
    const timespec timeout = absl::ToTimespec(std::min(left, absl::Hours(1)));
    if (const int number = sigtimedwait(&set, nullptr, &timeout); number > 0 && number != SIGHUP) {
      return true;
    }
  }
  spdlog::critical("still not ended {} after the signal to stop: the process is ended",
                   absl::FormatDuration(most));
  return false;
}

}  // namespace beamwright::serving
