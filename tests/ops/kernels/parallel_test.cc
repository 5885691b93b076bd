// Loops in parallel, and the team of threads that shares them.

#include "ops/kernels/parallel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/kernels/team.h"
#include "tests/support/sanitized.h"

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

namespace beamwright {
namespace {

TEST(TeamTest, CallsEachPartOnce) {
  for (const int region : {1, 2, 3, 5}) {
    Team::Within(region, [region] {
      for (const int threads : {1, 2, 3, 5}) {
        for (const int64_t count : {0, 1, 2, 3, 4, 7, 100}) {
          std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
          Team::Run(threads, count, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
          for (const auto& number : calls) {
            EXPECT_EQ(number, 1) << "region of " << region << ", " << threads << " threads, "
                                 << count << " parts";
          }
        }
      }
    });
  }
}

// Each part waits for all others to have begun, so that no thread can do two.
void ExpectThreadsSideBySide() {
  constexpr int kThreads = 3;
  auto* const barrier = new absl::Barrier(kThreads);
  absl::Mutex mutex;
  std::set<std::thread::id> ids;
  Team::Run(kThreads, kThreads, [&](int64_t) {
    {
      const absl::MutexLock lock(&mutex);
      ids.insert(std::this_thread::get_id());
    }
    if (barrier->Block()) {
      delete barrier;
    }
  });
  EXPECT_EQ(ids.size(), size_t{kThreads});
  EXPECT_TRUE(ids.count(std::this_thread::get_id()));
}

TEST(TeamTest, ThreadsWorkSideBySide) {
  Team::Within(3, [] {
    for (int round = 0; round < 50; ++round) {
      ExpectThreadsSideBySide();
    }
  });
}

TEST(TeamTest, OutsideARegionALoopOpensOne) {
  for (int round = 0; round < 20; ++round) {
    ExpectThreadsSideBySide();
  }
}

// A region that has more threads takes no more of them than a loop asks for.
TEST(TeamTest, NoMoreThreadsThanAskedFor) {
  Team::Within(4, [] {
    for (const int threads : {4, 2, 3}) {
      absl::Mutex mutex;
      std::set<std::thread::id> ids;
      Team::Run(threads, 100, [&](int64_t) {
        for (int i = 0; i < 50; ++i) {
          std::this_thread::yield();
        }
        const absl::MutexLock lock(&mutex);
        ids.insert(std::this_thread::get_id());
      });
      EXPECT_LE(ids.size(), static_cast<size_t>(threads));
    }
  });
}

// Short loops one after another: threads come late, are not waited for, and may find the next loop.
// What a loop writes is there when it has returned.
TEST(TeamTest, LoopsFollowOneAnother) {
  constexpr int64_t kCount = 8;
  Team::Within(3, [] {
    for (int64_t round = 0; round < 20'000; ++round) {
      int64_t values[kCount] = {};
      Team::Run(2 + static_cast<int>(round % 2), kCount, [&](int64_t i) { values[i] = round + i; });
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(values[i], round + i) << "round " << round;
      }
    }
  });
}

TEST(TeamTest, WhatABodyThrowsLeavesTheRegion) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(Team::Within(2, [] { throw std::bad_alloc(); }), std::bad_alloc);
  }
}

// One within another has its threads, and both end.
TEST(TeamTest, RegionsFollowOneAnotherAndNest) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> calls = 0;
    Team::Within(1 + round % 4,
                 [&] { Team::Within(3, [&] { Team::Run(3, 10, [&](int64_t) { ++calls; }); }); });
    ASSERT_EQ(calls, 10) << "round " << round;
  }
}

// Whether the kernel has the thread of this process asleep.
bool Sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return state == "S";
}

// Threads that sleep are woken.
TEST(TeamTest, WakesWhoSleeps) {
  const pid_t own = gettid();
  Team::Within(2, [own] {
    for (int round = 0; round < 3; ++round) {
      auto* const barrier = new absl::Barrier(2);
      std::atomic<pid_t> other = 0;
      Team::Run(2, 2, [&](int64_t) {
        if (gettid() != own) {
          other = gettid();
        }
        if (barrier->Block()) {
          delete barrier;
        }
      });
      while (Team::IsAwake() || !Sleeps(other)) {
        std::this_thread::yield();
      }
    }
  });
}

// Work of loops that follow one another adds up, that before a pause is forgotten.
TEST(TeamTest, PassedUpWorkAddsUp) {
  EXPECT_EQ(Team::PassUp(3), 0) << "outside a region";
  Team::Within(2, [] {
    int64_t last = Team::PassUp(3);
    EXPECT_EQ(last, 3);
    bool adds_up = false;
    for (int i = 0; i < 1'000; ++i) {
      const int64_t now = Team::PassUp(3);
      ASSERT_TRUE(now == last + 3 || now == 3) << now << " after " << last;
      adds_up = adds_up || now == last + 3;
      last = now;
    }
    EXPECT_TRUE(adds_up);
    std::this_thread::sleep_for(2 * Team::kLookout);
    EXPECT_EQ(Team::PassUp(5), 5);
  });
}

// Parts that take long enough for other threads to come, if there were any.
TEST(TeamTest, ALoopWithinALoopRunsOnItsThread) {
  std::atomic<int> calls = 0;
  Team::Run(2, 4, [&](int64_t) {
    const std::thread::id own = std::this_thread::get_id();
    Team::Run(4, 2'000, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), own);
      std::this_thread::yield();
      ++calls;
    });
  });
  EXPECT_EQ(calls, 8'000);
}

TEST(TeamTest, EachThreadHasItsOwnRegionAndEndsIt) {
  for (int i = 0; i < 20; ++i) {
    std::thread([] {
      std::atomic<int> calls = 0;
      Team::Within(3, [&] { Team::Run(3, 30, [&](int64_t) { ++calls; }); });
      EXPECT_EQ(calls, 30);
    }).join();
  }
}

// A process that forked has none of the threads, and waits for none: neither in a loop nor at its
// end.
TEST(TeamTest, AForkedProcessWorksAloneAndEnds) {
  Team::Run(2, 2, [](int64_t) {});
  EXPECT_EXIT(
      {
        std::atomic<int> calls = 0;
        Team::Run(2, 10, [&](int64_t) { ++calls; });
        if (testing_support::kSanitized) {
          _exit(calls);  // LLVM's OpenMP tool for ThreadSanitizer fails in a copy's exit handlers
        }
        std::exit(calls);
      },
      ::testing::ExitedWithCode(10), "");
}

}  // namespace

}  // namespace beamwright
