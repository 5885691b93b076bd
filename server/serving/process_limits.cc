// 1. Before anything is loaded: CheckThreads starts as many threads as the server will need, and
//    reserves the address space of first calls, so that a limit is an error that names it instead
//    of an abort later. RaiseFileLimit takes the hard limit of open files; FilesKeptBack says how
//    many of them connections may not use.
// 2. ExplainTermination: an exception that nothing catches ends the process with a line that says
//    which, written without memory.
// 3. StopSignals: one thread that waits for signals. SIGHUP calls Reload; the first SIGTERM or
//    SIGINT notifies main, which drains; a second one, or a drain that takes too long, ends the
//    process at once.
#include "server/serving/process_limits.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/base/steady_time.h"
#include "server/serving/logging.h"

namespace beamwright::serving {
namespace {

// Threads and address space are what a process runs out of while it starts.
constexpr char kLimits[] =
    "raise the limits of threads (ulimit -u, the cgroup's pids.max) or of address space (ulimit "
    "-v)";
constexpr int64_t kMostKept = 128;
// Address space that loading a small model and the first calls take behind the threads' stacks.
// Where it is missing, Abseil's locks end the process by SIGABRT, without a word about limits.
constexpr size_t kSpaceToServe = 256 << 20;

// No memory may be left: writes to standard error without any.
void Say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
    return;  // nothing can be said
  }
}

[[noreturn]] void EndSayingWhy() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) {
    std::abort();
  }
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    Say("beamwright-server: ends because of an exception: ");
    Say(error.what());
    Say("; if it is about resources or an allocation, ");
    Say(kLimits);
    Say("\n");
  } catch (...) {
    Say("beamwright-server: ends because of an exception of an unknown type\n");
  }
  _exit(1);
}

// Not by Abseil, whose locks end the process where there is no memory for them.
void* WaitFor(void* held) {
  const std::lock_guard<std::mutex> lock(*static_cast<std::mutex*>(held));
  return nullptr;
}

}  // namespace

void ExplainTermination() { std::set_terminate(EndSayingWhy); }

absl::Status CheckThreads(int count) {
  void* const space = mmap(nullptr, kSpaceToServe, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::mutex held;  // until all are started
  held.lock();
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  size_t started = 0;
  int error = 0;
  while (error == 0 && started < threads.size()) {
    error = pthread_create(&threads[started], nullptr, WaitFor, &held);
    started += error == 0 ? 1 : 0;
  }
  held.unlock();
  for (size_t i = 0; i < started; ++i) {
    pthread_join(threads[i], nullptr);
  }
  if (space != MAP_FAILED) {
    munmap(space, kSpaceToServe);
  } else if (error == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", kSpaceToServe >> 20, " MiB of address space: ", kLimits));
  }
  if (error == 0) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("cannot start more than ", started,
                                                   " threads, and the server needs ", count, " (",
                                                   std::strerror(error), "): ", kLimits));
}

int64_t RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return 0;
  }
  const rlim_t soft = files.rlim_cur;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
    files.rlim_cur = soft;
  }
  return static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, INT32_MAX));
}

int64_t FilesKeptBack(int64_t limit) { return std::min(kMostKept, limit / 4); }

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
