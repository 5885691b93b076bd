#include "ops/kernels/parallel.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

namespace beamwright::ops {
namespace {

constexpr int64_t kCount = 37;

TEST(ParallelForTest, CallsEachOnce) {
  for (const int threads : {1, 2, 3, 4}) {
    std::vector<int> calls(kCount, 0);
    ParallelFor(threads, kCount, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
    ParallelFor(threads, kCount, kMinParallelWork,
                [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
    ParallelFor(threads, kCount, kMinParallelWork - 1,
                [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
    EXPECT_EQ(calls, std::vector<int>(kCount, 3)) << threads << " threads";
  }
  ParallelFor(2, 0, [](int64_t) { FAIL(); });
}

// An exception that leaves a thread of the team ends the process. On one thread the parts behind it are
// left out, which nobody minds: what was to be computed is given up.
TEST(ParallelForTest, LackOfMemoryLeavesTheRegion) {
  for (const int threads : {1, 2, 3}) {
    for (int64_t failing = 0; failing < kCount; ++failing) {
      std::vector<int> calls(kCount, 0);
      EXPECT_THROW(ParallelFor(threads, kCount,
                               [&](int64_t i) {
                                 ++calls[static_cast<size_t>(i)];
                                 if (i == failing) {
                                   throw std::bad_alloc();
                                 }
                               }),
                   std::bad_alloc);
      if (threads > 1) {
        EXPECT_EQ(calls, std::vector<int>(kCount, 1)) << "part " << failing;
      }
    }
  }
}

TEST(ParallelForTest, SoDoesThatOfAllThreads) {
  const auto fail = [](int64_t) { throw std::bad_alloc(); };
  EXPECT_THROW(ParallelFor(2, kCount, kMinParallelWork, fail), std::bad_alloc);
  // The team is there for the next one.
  std::vector<int> calls(kCount, 0);
  ParallelFor(2, kCount, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
  EXPECT_EQ(calls, std::vector<int>(kCount, 1));
}

}  // namespace
}  // namespace beamwright::ops
