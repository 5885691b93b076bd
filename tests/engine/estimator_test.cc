#include <gtest/gtest.h>

#include "engine/queue/request_queue.h"

namespace beamwright::engine {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

TEST(EstimatorTest, KnowsNothingAtFirstAndSaysSo) {
  const Estimator estimator;
  const auto forecast = estimator.Of("m", 9, 50, kStart);
  EXPECT_EQ(forecast.steps, 50);
  EXPECT_FALSE(forecast.sure);
  EXPECT_EQ(estimator.row_steps_per_second(), 0);
}

TEST(EstimatorTest, LearnsLengthAndTimeOfEachModel) {
  Estimator estimator;
  for (int i = 0; i < 100; ++i) {
    // Half as many tokens out as in; 2 ms for each that comes in.
    estimator.Finished("m", 9 + i % 10, (10 + i % 10) / 2, absl::Milliseconds(20 + 2 * (i % 10)),
                       kStart);
    estimator.Finished("slow", 9, 10, absl::Seconds(1), kStart);
  }
  const auto forecast = estimator.Of("m", 99, 1000, kStart);
  EXPECT_NEAR(forecast.steps, 50, 3);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(forecast.took), 200, 1);
  EXPECT_TRUE(forecast.sure);
  EXPECT_EQ(estimator.Of("m", 99, 7, kStart).steps, 7);
  EXPECT_NEAR(absl::ToDoubleSeconds(estimator.Of("slow", 9, 50, kStart).took), 1, 1e-6);
  // What was long ago says nothing about now.
  EXPECT_FALSE(estimator.Of("m", 99, 1000, kStart + absl::Minutes(1)).sure);
}

// One bad observation would be in every forecast from then on.
TEST(EstimatorTest, LearnsFiniteNumbersOnly) {
  Estimator estimator;
  for (int i = 0; i < 100; ++i) {
    estimator.Finished("m", 9, 10, absl::Milliseconds(20), kStart);
  }
  estimator.Finished("m", -1, 10, absl::Milliseconds(2), kStart);
  estimator.Finished("m", 9, 10, absl::InfiniteDuration(), kStart);
  estimator.Finished("m", 9, 10, -absl::Seconds(1), kStart);
  const auto forecast = estimator.Of("m", 9, 50, kStart);
  EXPECT_NEAR(forecast.steps, 10, 6);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(forecast.took), 20, 3);
}

TEST(EstimatorTest, FollowsAChangeOfSpeed) {
  Estimator estimator;
  for (int i = 0; i < 2000; ++i) {
    estimator.Turn(100, absl::Milliseconds(1));
  }
  EXPECT_NEAR(estimator.row_steps_per_second(), 100'000, 1);
  for (int i = 0; i < 300; ++i) {
    estimator.Turn(100, absl::Milliseconds(10));
  }
  EXPECT_NEAR(estimator.row_steps_per_second(), 10'000, 1000);
}

}  // namespace
}  // namespace beamwright::engine
