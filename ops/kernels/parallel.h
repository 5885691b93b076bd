// Parallel loops that give the same bits for any number of threads: iterations are independent and
// nothing is reduced across them.
#ifndef BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
#define BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_

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

// How many of num_threads threads so much work pays for. Asks whether the calling thread's team is
// awake, so that two calls may differ: what is cut by the answer is cut by one answer.
inline int ThreadsFor(int num_threads, int64_t work) {
  const bool pays = num_threads > 1 && work >= kMinSharedWork &&
                    (work >= kMinParallelWork || Team::OfThread().IsAwake());
  return pays ? num_threads : 1;
}

// Calls body(i) for i in [0, count), in any order, on up to num_threads threads. What body may
// throw is std::bad_alloc, since each thread has scratch memory of its own: no exception may leave
// a thread of the team, so it is caught there, the other parts run, and it is thrown again behind
// the loop.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, const Body& body) {
  if (num_threads <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  std::atomic<bool> out_of_memory = false;
  Team::OfThread().Run(num_threads, count, [&](int64_t i) {
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

// The same; on more than one thread if `work` (in all) pays.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, int64_t work, const Body& body) {
  ParallelFor(ThreadsFor(num_threads, work), count, body);
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
