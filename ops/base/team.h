// Team: the threads that share the parts of a loop with the thread that calls. Each calling thread
// has one (`OfThread`), whose members it starts when they are first needed and which end
// with it.
//
// The caller never waits for a member that has not begun: parts that no member has taken it does
// itself, and an offer that was not taken up is withdrawn. So a core that is busy elsewhere costs a
// loop little, where a barrier of all threads would wait for it. Members that have just worked look
// out for the next loop for kLookout, since a step has many; then they sleep, so that an idle
// process takes no time. Between two looks they offer their core to other processes.
#ifndef BEAMWRIGHT_OPS_BASE_TEAM_H_
#define BEAMWRIGHT_OPS_BASE_TEAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace beamwright {

// Used by one thread; its members are its own affair.
class Team {
 public:
  // Longer than what stands between two loops of a step, shorter than anybody notices.
  static constexpr std::chrono::microseconds kLookout{100};

  // The calling thread's.
  static Team& OfThread();

  Team() = default;
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls body(i) once for each i in [0, count), on at most `threads` threads, the caller's among
  // them; returns when all calls have. Each thread begins with its parts, which follow one
  // another, the same in every loop of as many parts, and then helps the others. A call from within
  // a body runs on its thread alone. body must not throw.
  void Run(int threads, int64_t count, absl::FunctionRef<void(int64_t)> body);

  // Whether the calling thread is within a body.
  static bool IsWithin();

  // Whether a member is looking out, so that a short loop is worth sharing as well.
  bool IsAwake() const;

  // Notes that a loop of so much work is not shared since all members sleep. Returns the work of
  // all such loops that followed one another within kLookout, this one included: members that wake
  // now would be there for the next.
  int64_t PassUp(int64_t work);

 private:
  enum State : uint32_t { kFree, kAsleep, kOffered, kWorking, kEnding };

  // The parts of one thread: [next, end).
  struct alignas(64) Parts {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  struct alignas(64) Member {
    std::atomic<uint32_t> state{kFree};
    std::thread thread;
  };

  // `members` threads, as far as the system gives them.
  void Grow(size_t members);
  void Work(Member& member, size_t number);
  void DoParts(size_t first);

  // Of the loop under way; written while no member works.
  const absl::FunctionRef<void(int64_t)>* body_ = nullptr;
  std::vector<Parts> parts_;
  size_t num_parts_ = 0;

  std::vector<std::unique_ptr<Member>> members_;

  int64_t passed_up_ = 0;
  std::chrono::steady_clock::time_point last_passed_up_;
};

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_TEAM_H_
