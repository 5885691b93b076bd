#include "ops/kernels/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "ops/kernels/packed_matmul.h"

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

// Loops within loops do not start further threads.
TEST(ParallelForTest, OneWithinAnotherRunsOnItsThread) {
  std::atomic<int> elsewhere{0};
  std::atomic<int> calls{0};
  ParallelFor(3, kCount, [&](int64_t) {
    const std::thread::id own = std::this_thread::get_id();
    ParallelFor(3, kCount, [&](int64_t) {
      ++calls;
      elsewhere += std::this_thread::get_id() == own ? 0 : 1;
    });
  });
  EXPECT_EQ(calls, kCount * kCount);
  EXPECT_EQ(elsewhere, 0);
}

// An exception that leaves an OpenMP region ends the process. On one thread
// the parts behind it are left out, which is harmless: the computation is given up.
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

// A short loop wakes no thread; several one after another do.
TEST(SharingForTest, ShortLoopsAreSharedIfTheyFollowOneAnother) {
  EXPECT_EQ(SharingFor(2, kMinParallelWork - 1), 1) << "outside a region";
  EXPECT_EQ(SharingFor(2, kMinParallelWork), 2);
  Team::Within(2, [] {
    while (Team::IsAwake()) {
      std::this_thread::yield();
    }
    EXPECT_EQ(SharingFor(2, kMinSharedWork), 1);
    int calls = 1;
    while (SharingFor(2, kMinSharedWork) == 1) {
      ASSERT_LT(++calls, 1'000'000);
    }
    EXPECT_GE(calls, kMinParallelWork / kMinSharedWork - 1);
    EXPECT_EQ(SharingFor(1, kMinSharedWork), 1);
    EXPECT_EQ(SharingFor(2, kMinSharedWork - 1), 1);
    ParallelFor(2, 1'000, [](int64_t) {
      EXPECT_EQ(SharingFor(2, kMinParallelWork), 1);  // within a loop
    });
  });
}

// A step of one row: what products are shared follows from the bytes that they read.
TEST(SharingForTest, OneRowSharesProductsThatReadMoreThanHalfAMegabyte) {
  const auto work = [](int64_t depth, int64_t columns, Precision precision) {
    const std::vector<float> weight(static_cast<size_t>(depth * columns), 0.5F);
    return PackedMatMul({weight.data(), depth, columns, columns}, /*transposed=*/false, precision)
        .Work(1);
  };
  EXPECT_LT(work(512, 512, Precision::kInt8), kMinSharedWork);
  EXPECT_LT(work(224, 896, Precision::kInt8), kMinSharedWork);
  EXPECT_GE(work(2048, 512, Precision::kInt8), kMinSharedWork);
  EXPECT_GE(work(256, 768, Precision::kF32), kMinSharedWork);
  EXPECT_GE(work(1024, 4096, Precision::kInt8), kMinParallelWork);
}

}  // namespace
}  // namespace beamwright::ops
