// Parallel loops that give the same bits for any number of threads: iterations are independent and
// nothing is reduced across them.
#ifndef BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
#define BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "ops/base/fault_point.h"

namespace beamwright::ops {

// Below this much work, in elementary operations (some 100 us), one thread is faster: waking a
// sleeping team costs about 20 us, and a team that spins instead takes the cores from everybody
// else.
inline constexpr int64_t kMinParallelWork = int64_t{1} << 22;

// Calls body(i) for i in [0, count), in any order, on up to num_threads threads. Opens no region
// for one thread. What body may throw is std::bad_alloc, since each thread has scratch memory of
// its own: no exception may leave an OpenMP region, so it is caught there, the other parts run, and
// it is thrown again behind the region.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, const Body& body) {
  if (num_threads <= 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  std::atomic<bool> out_of_memory = false;
  [[maybe_unused]] const int threads = static_cast<int>(std::min<int64_t>(num_threads, count));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) {
    try {
      FaultPoint("parallel.part").IgnoreError();
      body(i);
    } catch (const std::bad_alloc&) {
      out_of_memory.store(true, std::memory_order_relaxed);
    }
  }
  if (out_of_memory.load(std::memory_order_relaxed)) {
    throw std::bad_alloc();
  }
}

// The same; on more than one thread if `work` (in all) pays.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, int64_t work, const Body& body) {
  ParallelFor(work < kMinParallelWork ? 1 : num_threads, count, body);
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
