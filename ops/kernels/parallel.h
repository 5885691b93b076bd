// Parallel loops that give the same bits for any number of threads: iterations are independent and
// nothing is reduced across them.
#ifndef BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
#define BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_

#include <atomic>
#include <cstdint>
#include <new>

#include "ops/base/fault_point.h"
#include "ops/kernels/team.h"

namespace beamwright::ops {

// Work is counted in multiply-adds of f32, of which a core makes some hundred a nanosecond. Below
// this much (some 40 us) a team that sleeps is not woken for it: that takes 5 us of the caller and
// 20 until a thread has come.
inline constexpr int64_t kMinParallelWork = int64_t{1} << 22;
// Below this much (some 5 us) one thread is as fast even if the team is awake.
inline constexpr int64_t kMinSharedWork = int64_t{1} << 19;

// How many threads share so much work best, num_threads at most. Depends on whether the threads of
// the region are awake, or should be since one short loop follows another, so that two calls may
// differ: what is cut by the answer is cut by one answer.
inline int SharingFor(int num_threads, int64_t work) {
  if (num_threads <= 1 || work < kMinSharedWork || Team::IsWithinLoop()) {
    return 1;
  }
  const bool pays =
      work >= kMinParallelWork || Team::IsAwake() || Team::PassUp(work) >= kMinParallelWork;
  return pays ? num_threads : 1;
}

// Calls body(i) for i in [0, count), in any order, on up to num_threads threads of the region
// (ops/kernels/team.h); within another such loop, on the calling thread alone. What body may throw
// is std::bad_alloc, since each thread has separate scratch memory: no exception may leave an
// OpenMP region, so it is caught there, the other parts run, and it is thrown again behind the
// loop.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, const Body& body) {
  if (num_threads <= 1 || count <= 1 || Team::IsWithinLoop()) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  std::atomic<bool> out_of_memory = false;
  Team::Run(num_threads, count, [&](int64_t i) {
    try {
      FaultPoint("parallel.part").IgnoreError();
      body(i);
    } catch (const std::bad_alloc&) {
      out_of_memory.store(true, std::memory_order_relaxed);
    }
  });
  if (out_of_memory.load(std::memory_order_relaxed)) {
    throw std::bad_alloc();
  }
}

// The same on as many threads as pay for `work` (in all).
template <typename Body>
void ParallelFor(int num_threads, int64_t count, int64_t work, const Body& body) {
  ParallelFor(SharingFor(num_threads, work), count, body);
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
