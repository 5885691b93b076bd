#include "ops/base/steady_time.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace beamwright {
namespace {

// A call that arrived before the wall clock jumped keeps the time that it had left.
TEST(SteadyTimeTest, ADeadlineDoesNotMoveWithTheWallClock) {
  const absl::Time wall = absl::FromUnixSeconds(1'000'000);
  const absl::Time steady = absl::FromUnixSeconds(1'000'000);
  const absl::Duration jump = absl::Hours(1);
  const absl::Time deadline = ToSteady(wall + absl::Seconds(10), wall, steady);
  EXPECT_EQ(deadline, steady + absl::Seconds(10));
  // A call that arrives after the jump has the same time left.
  EXPECT_EQ(ToSteady(wall + jump + absl::Seconds(10), wall + jump, steady), deadline);
  EXPECT_EQ(ToSteady(wall - jump + absl::Seconds(10), wall - jump, steady), deadline);
}

TEST(SteadyTimeTest, InfiniteTimesStayInfinite) {
  EXPECT_EQ(ToSteady(absl::InfiniteFuture()), absl::InfiniteFuture());
  EXPECT_EQ(ToSteady(absl::InfinitePast()), absl::InfinitePast());
  EXPECT_EQ(ToWall(absl::InfiniteFuture()), absl::InfiniteFuture());
}

TEST(SteadyTimeTest, RunsWithoutGoingBack) {
  absl::Time last = SteadyNow();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = SteadyNow();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace beamwright
