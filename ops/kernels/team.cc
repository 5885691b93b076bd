// The executor of ParallelFor: a Team of the threads of one OpenMP region (team.h says why not `omp
// for`).
//
// 1. Within opens the region: the caller runs the body, the others go to Work and wait.
// 2. Run shares a loop: Share cuts [0, count) into one range of parts for each thread and offers it
//    by a state in each member. The caller works on its range, then on the others' ranges, and
//    takes back offers that no thread has accepted.
// 3. DoParts takes parts of the own range first and then helps others, by an atomic counter for
//    each range.
// 4. Work waits for an offer: LookOut spins for kLookout, since a step has many loops, and then the
//    thread sleeps on its state (futex). The states of a member:
//
//   kFree -> kOffered -> kWorking -> kFree        kFree -> kAsleep -> kOffered       any -> kEnding
//
// LookOut yields only where the kernel has lately taken the core away (Contention): a spinning
// thread must not hold up other processes, and a yield is expensive where none waits.
#include "ops/kernels/team.h"

#include <omp.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace beamwright {
namespace {

// For the calling thread: the team of the region that it opened, and whether it is in a loop's
// body.
thread_local Team* current = nullptr;
thread_local bool is_within = false;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Whether another process, or a quota, has lately taken the core from the calling thread.
class Contention {
 public:
  bool IsContended(std::chrono::steady_clock::time_point now) {
    const int64_t switches = Switches();
    if (switches != seen_) {
      seen_ = switches;
      until_ = now + kMemory;
    }
    return now < until_;
  }
  // A voluntary switch is not counted.
  void Yield() {
    std::this_thread::yield();
    seen_ = Switches();
  }

 private:
  // Longer than a time slice.
  static constexpr std::chrono::milliseconds kMemory{5};

  static int64_t Switches() {
    rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
  }

  int64_t seen_ = Switches();
  std::chrono::steady_clock::time_point until_;
};

// Calls done() until it returns true, for Team::kLookout at most; returns its last answer. Yields
// where other processes want the core, and only there: Linux 6.18 takes a time slice from a thread
// that yields, even for processes of idle priority.
template <typename Done>
bool LookOut(const Done& done) {
  constexpr int kLooks = 128;  // some microseconds
  static thread_local Contention contention;
  const auto end = std::chrono::steady_clock::now() + Team::kLookout;
  while (true) {
    for (int i = 0; i < kLooks; ++i) {
      if (done()) {
        return true;
      }
      Pause();
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) {
      return done();
    }
    if (contention.IsContended(now)) {
      contention.Yield();
    }
  }
}

// The number of a region's `threads` threads that the system can start: an OpenMP runtime ends the
// process when a thread cannot be started. The runtime keeps threads for the next regions of the
// calling thread, so only additional threads are tried.
int ThreadsToBeHad(int threads) {
  static thread_local int had = 1;
  if (threads <= had) {
    return threads;
  }
  std::atomic<bool> tried = false;
  std::vector<std::thread> trial;
  try {
    trial.reserve(static_cast<size_t>(threads));
    while (had + static_cast<int>(trial.size()) < threads) {
      trial.emplace_back([&tried] { tried.wait(false); });
    }
  } catch (const std::system_error&) {
    // Fewer threads share the loops.
  }
  tried = true;
  tried.notify_all();
  for (std::thread& thread : trial) {
    thread.join();
  }
  had += static_cast<int>(trial.size());
  return had;
}

// Whether the calling thread is the copy that a fork made. Its regions' threads were not copied,
// neither these nor those of other users of the same runtime, and GCC's runtime would wait for
// them. Threads started after the fork have regions.
thread_local bool is_forked = false;
[[maybe_unused]] const int notes_forks = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });

}  // namespace

Team::Team(int threads)
    : parts_(static_cast<size_t>(threads)), members_(static_cast<size_t>(threads - 1)) {}

bool Team::IsWithinLoop() { return is_within; }

bool Team::IsAwake() {
  if (current == nullptr) {
    return false;
  }
  const auto begin = current->members_.begin();
  return std::any_of(
      begin, begin + static_cast<std::ptrdiff_t>(current->num_members_),
      [](const Member& member) { return member.state.load(std::memory_order_relaxed) == kFree; });
}

int64_t Team::PassUp(int64_t work) {
  if (current == nullptr) {
    return 0;
  }
  Team& team = *current;
  const auto now = std::chrono::steady_clock::now();
  team.passed_up_ = now - team.last_passed_up_ < kLookout ? team.passed_up_ + work : work;
  team.last_passed_up_ = now;
  return team.passed_up_;
}

void Team::Within(int threads, absl::FunctionRef<void()> body) {
  if (threads < 2 || current != nullptr || is_within || is_forked) {
    body();
    return;
  }
  threads = ThreadsToBeHad(threads);
  Team team(threads);
  std::exception_ptr thrown;
#pragma omp parallel num_threads(threads) shared(team, thrown, body)
  {
    const auto number = static_cast<size_t>(omp_get_thread_num());
    if (number > 0) {
      team.Work(number);
    } else {
      team.num_members_ = static_cast<size_t>(omp_get_num_threads() - 1);
      current = &team;
      try {
        body();
      } catch (...) {
        thrown = std::current_exception();  // an exception may not leave a region
      }
      current = nullptr;
      team.End();
    }
  }
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
}

void Team::Run(int threads, int64_t count, absl::FunctionRef<void(int64_t)> body) {
  const auto most = static_cast<int>(std::min<int64_t>(threads, count));
  if (most < 2 || is_within) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  const auto share = [&] {
    if (current == nullptr) {
      for (int64_t i = 0; i < count; ++i) {
        body(i);
      }
    } else {
      current->Share(static_cast<size_t>(most), count, body);
    }
  };
  if (current == nullptr) {
    Within(most, share);
  } else {
    share();
  }
}

void Team::Share(size_t threads, int64_t count, absl::FunctionRef<void(int64_t)> body) {
  num_parts_ = std::min(threads, num_members_ + 1);
  for (size_t i = 0; i < num_parts_; ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto of = static_cast<int64_t>(num_parts_);
    parts_[i].next.store(count * at / of, std::memory_order_relaxed);
    parts_[i].end = count * (at + 1) / of;
  }
  body_ = &body;
  const size_t helpers = num_parts_ - 1;
  for (size_t i = 0; i < helpers; ++i) {
    std::atomic<uint32_t>& state = members_[i].state;
    if (state.exchange(kOffered, std::memory_order_acq_rel) == kAsleep) {
      state.notify_one();
    }
  }
  DoParts(0);
  for (size_t i = 0; i < helpers; ++i) {
    std::atomic<uint32_t>& state = members_[i].state;
    uint32_t seen = kOffered;
    if (state.compare_exchange_strong(seen, kFree, std::memory_order_acq_rel)) {
      continue;
    }
    const auto is_done = [&] { return state.load(std::memory_order_acquire) != kWorking; };
    if (!LookOut(is_done)) {
      state.wait(kWorking, std::memory_order_acquire);
    }
  }
}

void Team::End() {
  for (size_t i = 0; i < num_members_; ++i) {
    members_[i].state.store(kEnding);
    members_[i].state.notify_one();
  }
}

void Team::DoParts(size_t first) {
  is_within = true;
  for (size_t i = 0; i < num_parts_; ++i) {
    Parts& parts = parts_[(first + i) % num_parts_];
    while (true) {
      // Checked first, so that the counter does not run far beyond the end.
      if (parts.next.load(std::memory_order_relaxed) >= parts.end) {
        break;
      }
      const int64_t part = parts.next.fetch_add(1, std::memory_order_relaxed);
      if (part >= parts.end) {
        break;
      }
      (*body_)(part);
    }
  }
  is_within = false;
}

void Team::Work(size_t number) {
  std::atomic<uint32_t>& state = members_[number - 1].state;
  while (true) {
    const auto is_called = [&] {
      const uint32_t now = state.load(std::memory_order_acquire);
      return now == kOffered || now == kEnding;
    };
    if (!LookOut(is_called)) {
      uint32_t seen = kFree;
      if (state.compare_exchange_strong(seen, kAsleep, std::memory_order_acq_rel)) {
        state.wait(kAsleep, std::memory_order_acquire);
      }
    }
    uint32_t seen = kOffered;
    if (state.compare_exchange_strong(seen, kWorking, std::memory_order_acq_rel)) {
      DoParts(number % num_parts_);
      state.store(kFree);  // sequentially consistent: before notify_one looks for a waiting caller
      state.notify_one();
    } else if (seen == kEnding) {
      return;
    }
  }
}

}  // namespace beamwright
