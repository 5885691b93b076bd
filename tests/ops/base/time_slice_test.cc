#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include "ops/base/threads.h"

namespace beamwright {
namespace {

struct Scheduling {
  uint32_t policy = 0;
  int32_t nice = 0;
  uint64_t slice_ns = 0;  // 0 before Linux 6.12
};

// sched_getattr(2): size, policy, flags (8 bytes), nice, priority, and at 24 the runtime.
Scheduling OfThisThread() {
  std::array<char, 48> bytes = {};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, bytes.data(), bytes.size(), 0), 0);
  Scheduling found;
  std::memcpy(&found.policy, &bytes[4], sizeof found.policy);
  std::memcpy(&found.nice, &bytes[16], sizeof found.nice);
  std::memcpy(&found.slice_ns, &bytes[24], sizeof found.slice_ns);
  return found;
}

TEST(TimeSliceTest, GoesToThreadsStartedLaterAndBack) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 3), 0);
    const Scheduling before = OfThisThread();
    UseShortTimeSlices();
    const Scheduling after = OfThisThread();
    EXPECT_EQ(after.policy, before.policy);
    EXPECT_EQ(after.nice, 3);
    if (before.slice_ns == 0) {
      GTEST_SKIP() << "Linux before 6.12 knows no slices of single threads";
    }
    EXPECT_LT(after.slice_ns, before.slice_ns);
    std::thread([&] {
      EXPECT_EQ(OfThisThread().slice_ns, after.slice_ns);
      UseUsualTimeSlices();
      EXPECT_EQ(OfThisThread().slice_ns, before.slice_ns);
      EXPECT_EQ(OfThisThread().nice, 3);
    }).join();
    {
      const LongTimeSlices slices;
      EXPECT_GT(OfThisThread().slice_ns, before.slice_ns);
    }
    EXPECT_EQ(OfThisThread().slice_ns, after.slice_ns);
  }).join();
}

}  // namespace
}  // namespace beamwright
