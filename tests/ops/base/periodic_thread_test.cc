#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "ops/base/threads.h"

namespace beamwright {
namespace {

TEST(PeriodicThreadTest, WorksAgainAndAgain) {
  absl::BlockingCounter calls(3);
  std::atomic<int> counted = 0;
  const PeriodicThread thread("test", absl::ZeroDuration(), [&] {
    if (counted++ < 3) {
      calls.DecrementCount();
    }
  });
  calls.Wait();
}

TEST(PeriodicThreadTest, WorkSaysWhenItIsCalledAgain) {
  absl::Notification second;
  absl::Notification third;
  int calls = 0;
  PeriodicThread thread("test", [&] {
    ++calls;
    if (calls == 2) {
      second.Notify();
    } else if (calls == 3) {
      third.Notify();
    }
    return calls == 1 ? absl::ZeroDuration() : absl::InfiniteDuration();
  });
  second.WaitForNotification();
  EXPECT_FALSE(third.HasBeenNotified());
  thread.Hurry();
  third.WaitForNotification();
}

TEST(PeriodicThreadTest, HurryDoesNotWaitForTheInterval) {
  absl::Notification called;
  PeriodicThread thread("test", absl::InfiniteDuration(), [&] { called.Notify(); });
  thread.Hurry();
  called.WaitForNotification();  // in a while that the test's timeout bounds
}

TEST(PeriodicThreadTest, ADestroyedOneHasEndedItsWorkAndBeginsNoOther) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  absl::Notification works;
  absl::Notification go;
  {
    PeriodicThread thread("test", absl::InfiniteDuration(), [&] {
      if (begun++ == 0) {
        works.Notify();
      }
      go.WaitForNotification();
      ++ended;
    });
    thread.Hurry();
    works.WaitForNotification();
    thread.Hurry();  // another turn is due when it is destroyed
    go.Notify();
  }
  EXPECT_EQ(ended, begun);
}

TEST(PeriodicThreadTest, IntervalsAreAnEighthOfATimeoutWithinBounds) {
  EXPECT_EQ(PeriodicThread::IntervalFor(absl::Seconds(4)), absl::Milliseconds(500));
  EXPECT_EQ(PeriodicThread::IntervalFor(absl::Milliseconds(20)), absl::Milliseconds(10));
  EXPECT_EQ(PeriodicThread::IntervalFor(absl::Hours(1)), absl::Seconds(1));
  EXPECT_EQ(PeriodicThread::IntervalFor(absl::InfiniteDuration()), absl::Seconds(1));
}

TEST(PeriodicThreadTest, OneThatNeverWorkedEnds) {
  const PeriodicThread thread("test", absl::InfiniteDuration(), [] { FAIL(); });
}

}  // namespace
}  // namespace beamwright
