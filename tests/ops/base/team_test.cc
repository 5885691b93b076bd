#include "ops/base/team.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace beamwright {
namespace {

TEST(TeamTest, CallsEachPartOnce) {
  Team team;
  for (const int threads : {1, 2, 3, 5}) {
    for (const int64_t count : {0, 1, 2, 3, 4, 7, 100}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      team.Run(threads, count, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
      for (const auto& number : calls) {
        EXPECT_EQ(number, 1) << threads << " threads, " << count << " parts";
      }
    }
  }
}

// Each part waits for all others to have begun, so that no thread can do two.
TEST(TeamTest, ThreadsWorkSideBySide) {
  constexpr int kThreads = 3;
  Team team;
  for (int round = 0; round < 50; ++round) {
    auto* const barrier = new absl::Barrier(kThreads);
    absl::Mutex mutex;
    std::set<std::thread::id> ids;
    team.Run(kThreads, kThreads, [&](int64_t) {
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
}

// A team that has had more members takes no more of them than a loop asks for.
TEST(TeamTest, NoMoreThreadsThanAskedFor) {
  Team team;
  for (const int threads : {4, 2, 3}) {
    absl::Mutex mutex;
    std::set<std::thread::id> ids;
    team.Run(threads, 100, [&](int64_t) {
      for (int i = 0; i < 50; ++i) {
        std::this_thread::yield();
      }
      const absl::MutexLock lock(&mutex);
      ids.insert(std::this_thread::get_id());
    });
    EXPECT_LE(ids.size(), static_cast<size_t>(threads));
  }
}

// Short loops one after another: members come late, are not waited for, and may find the next loop.
// What a loop writes is there when it has returned.
TEST(TeamTest, LoopsFollowOneAnother) {
  Team team;
  constexpr int64_t kCount = 8;
  for (int64_t round = 0; round < 20'000; ++round) {
    int64_t values[kCount] = {};
    team.Run(2 + static_cast<int>(round % 2), kCount, [&](int64_t i) { values[i] = round + i; });
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(values[i], round + i) << "round " << round;
    }
  }
}

// Whether the kernel has the thread of this process asleep.
bool Sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return state == "S";
}

// Members that sleep are woken.
TEST(TeamTest, WakesWhoSleeps) {
  Team team;
  const pid_t own = gettid();
  for (int round = 0; round < 3; ++round) {
    auto* const barrier = new absl::Barrier(2);
    std::atomic<pid_t> member = 0;
    team.Run(2, 2, [&](int64_t) {
      if (gettid() != own) {
        member = gettid();
      }
      if (barrier->Block()) {
        delete barrier;
      }
    });
    while (team.IsAwake() || !Sleeps(member)) {
      std::this_thread::yield();
    }
  }
}

// Work of loops that follow one another adds up, that before a pause is forgotten.
TEST(TeamTest, PassedUpWorkAddsUp) {
  Team team;
  int64_t last = team.PassUp(3);
  EXPECT_EQ(last, 3);
  bool adds_up = false;
  for (int i = 0; i < 1'000; ++i) {
    const int64_t now = team.PassUp(3);
    ASSERT_TRUE(now == last + 3 || now == 3) << now << " after " << last;
    adds_up = adds_up || now == last + 3;
    last = now;
  }
  EXPECT_TRUE(adds_up);
  std::this_thread::sleep_for(2 * Team::kLookout);
  EXPECT_EQ(team.PassUp(5), 5);
}

// Parts that take long enough for members to come, if there were any.
TEST(TeamTest, ALoopWithinALoopRunsOnItsThread) {
  Team team;
  std::atomic<int> calls = 0;
  team.Run(2, 4, [&](int64_t) {
    const std::thread::id own = std::this_thread::get_id();
    Team::OfThread().Run(4, 2'000, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), own);
      std::this_thread::yield();
      ++calls;
    });
  });
  EXPECT_EQ(calls, 8'000);
}

TEST(TeamTest, EachThreadHasItsOwnAndEndsIt) {
  const Team* const own = &Team::OfThread();
  EXPECT_EQ(&Team::OfThread(), own);
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      EXPECT_NE(&Team::OfThread(), own);
      std::atomic<int> calls = 0;
      Team::OfThread().Run(3, 30, [&](int64_t) { ++calls; });
      EXPECT_EQ(calls, 30);
    }).join();
  }
}

// A process that forked has none of the members, and waits for none: neither in a loop nor at its
// end.
TEST(TeamTest, AForkedProcessWorksAloneAndEnds) {
  Team::OfThread().Run(2, 2, [](int64_t) {});
  EXPECT_EXIT(
      {
        std::atomic<int> calls = 0;
        Team::OfThread().Run(2, 10, [&](int64_t) { ++calls; });
        std::exit(calls);
      },
      ::testing::ExitedWithCode(10), "");
}

}  // namespace
}  // namespace beamwright
