// Team: the threads of an OpenMP region that share the loops of the steps within it.
//
// A stream opens one region (`Within`) and keeps it as long as it runs. Steps run on the thread
// that opened the region; the other threads take parts of their loops. Loops are shared here and
// not by `omp for`, whose barrier waits for each thread of the region: the caller of Run never
// waits for a thread that has not begun. It computes the parts that no other thread has taken, and
// withdraws an offer that was not taken up, so a core that is busy elsewhere costs a loop little.
// Threads that have worked look out for the next loop for kLookout, since a step has many, and then
// sleep: an idle process takes no time, whatever the wait policy of the OpenMP runtime.
#ifndef BEAMWRIGHT_OPS_KERNELS_TEAM_H_
#define BEAMWRIGHT_OPS_KERNELS_TEAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace beamwright {

class Team {
 public:
  // Longer than the time between two loops of a step.
  static constexpr std::chrono::microseconds kLookout{100};

  // Calls body() on the calling thread, in a region of `threads` threads or of as many as the
  // system gives. Within another region, and for fewer than two threads, there is no new one. What
  // body throws is thrown again.
  static void Within(int threads, absl::FunctionRef<void()> body);

  // Calls body(i) once for each i in [0, count), on at most `threads` threads of the region, the
  // caller's among them, in a separate region where the caller is in none; returns when all calls
  // have. Each thread begins with its parts, which follow one another, the same in every loop of as
  // many parts, and then helps the others. A call from within a body runs on its thread alone. body
  // must not throw.
  static void Run(int threads, int64_t count, absl::FunctionRef<void(int64_t)> body);

  // Whether the calling thread is within a loop's body.
  static bool IsWithinLoop();

  // Whether a thread of the region is looking out, so that a short loop is worth sharing as well.
  static bool IsAwake();

  // Notes that a loop of so much work is not shared since all threads of the region sleep. Returns
  // the work of all such loops that followed one another within kLookout, this one included:
  // threads that wake now would be there for the next. 0 outside a region.
  static int64_t PassUp(int64_t work);

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

 private:
  enum State : uint32_t { kFree, kAsleep, kOffered, kWorking, kEnding };

  // The parts of one thread: [next, end).
  struct alignas(64) Parts {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  // A thread of the region other than the caller's.
  struct alignas(64) Member {
    std::atomic<uint32_t> state{kFree};
  };

  explicit Team(int threads);
  // On the thread that opened the region.
  void Share(size_t threads, int64_t count, absl::FunctionRef<void(int64_t)> body);
  void End();
  // On thread number `number` of the region, until End.
  void Work(size_t number);
  void DoParts(size_t first);

  // Of the loop under way; written while no member works.
  const absl::FunctionRef<void(int64_t)>* body_ = nullptr;
  std::vector<Parts> parts_;
  size_t num_parts_ = 0;

  std::vector<Member> members_;
  size_t num_members_ = 0;  // as many of them as the runtime started

  int64_t passed_up_ = 0;
  std::chrono::steady_clock::time_point last_passed_up_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_KERNELS_TEAM_H_
