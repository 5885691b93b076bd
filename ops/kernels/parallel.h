// Parallel loops that give the same bits for any number of threads: iterations are independent and
// nothing is reduced across them.
#ifndef BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
#define BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "ops/base/fault_point.h"
#include "ops/base/team.h"

namespace beamwright::ops {

// Work is counted in multiply-adds of f32, of which a core makes some hundred a nanosecond. Below
// this much (some 40 us) a team that sleeps is not woken for it: that takes 5 us of the caller and
// 20 until a member has come.
inline constexpr int64_t kMinParallelWork = int64_t{1} << 22;
// Below this much (some 5 us) one thread is as fast even if the team is awake.
inline constexpr int64_t kMinSharedWork = int64_t{1} << 19;
// From this much on (some 90 ms) OpenMP shares a loop. Not below: its threads look out for the next
// loop as the team's do, and of the shorter loops that follow both would want the same cores.
inline constexpr int64_t kMinLongWork = int64_t{1} << 33;

// How a loop is shared.
struct Sharing {
  int threads = 1;       // that do so at most, the caller's among them
  bool is_long = false;  // by OpenMP; else by the calling thread's team (ops/base/team.h)
};

// How so much work is shared best by num_threads threads at most. Depends on whether the calling
// thread's team is awake, or should be since one short loop follows another, so that two calls may
// differ: what is cut by the answer is cut by one answer.
inline Sharing SharingFor(int num_threads, int64_t work) {
  if (num_threads <= 1 || work < kMinSharedWork || Team::IsWithin()) {
    return {};
  }
  Team& team = Team::OfThread();
  const bool pays =
      work >= kMinParallelWork || team.IsAwake() || team.PassUp(work) >= kMinParallelWork;
  return {pays ? num_threads : 1, work >= kMinLongWork};
}

// Calls body(i) for i in [0, count), in any order; within another such loop, on the calling thread
// alone. What body may throw is std::bad_alloc, since each thread has separate scratch memory: no
// exception may leave an OpenMP region or a thread of the team, so it is caught there, the other
// parts run, and it is thrown again behind the loop.
template <typename Body>
void ParallelFor(const Sharing& sharing, int64_t count, const Body& body) {
  if (sharing.threads <= 1 || count <= 1 || Team::IsWithin() || omp_in_parallel() != 0) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  std::atomic<bool> out_of_memory = false;
  const auto part = [&](int64_t i) {
    try {
      FaultPoint("parallel.part").IgnoreError();
      body(i);
    } catch (const std::bad_alloc&) {
      out_of_memory.store(true, std::memory_order_relaxed);
    }
  };
  if (sharing.is_long) {
    [[maybe_unused]] const int threads =
        static_cast<int>(std::min<int64_t>(sharing.threads, count));
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; ++i) {
      part(i);
    }
  } else {
    Team::OfThread().Run(sharing.threads, count, part);
  }
  if (out_of_memory.load(std::memory_order_relaxed)) {
    throw std::bad_alloc();
  }
}

// The same by the team, on up to num_threads threads.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, const Body& body) {
  ParallelFor(Sharing{num_threads, false}, count, body);
}

// The same as pays for `work` (in all).
template <typename Body>
void ParallelFor(int num_threads, int64_t count, int64_t work, const Body& body) {
  ParallelFor(SharingFor(num_threads, work), count, body);
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
