// Parallel loops that give the same bits for any number of threads: iterations are independent and
// nothing is reduced across them.
#ifndef BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
#define BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_

#include <algorithm>
#include <cstdint>

namespace beamwright::ops {

// Below this much work, in elementary operations (some 100 us), one thread is faster: waking a
// sleeping team costs about 20 us, and a team that spins instead takes the cores from everybody
// else.
inline constexpr int64_t kMinParallelWork = int64_t{1} << 22;

// Calls body(i) for i in [0, count), in any order; on up to num_threads threads if `work` (in all)
// pays. Opens no region for one thread. body must not throw.
template <typename Body>
void ParallelFor(int num_threads, int64_t count, int64_t work, Body body) {
  if (num_threads <= 1 || count <= 1 || work < kMinParallelWork) {
    for (int64_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  [[maybe_unused]] const int threads = static_cast<int>(std::min<int64_t>(num_threads, count));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) {
    body(i);
  }
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PARALLEL_H_
