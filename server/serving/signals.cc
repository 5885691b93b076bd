#include "server/serving/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace beamwright::serving {

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
      sigwait(&set, &number);
      _exit(1);
    }).detach();
    return created;
  }();
  return *signals;
}

}  // namespace beamwright::serving
