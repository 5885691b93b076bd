#include "client/load/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

int64_t Us(absl::Duration duration) { return absl::ToInt64Microseconds(duration); }

// The oracle: the smallest value that at least `fraction` of the values do not exceed.
int64_t SortedPercentile(const std::vector<int64_t>& sorted, double fraction) {
  const auto rank =
      static_cast<size_t>(std::max(1.0, std::ceil(fraction * static_cast<double>(sorted.size()))));
  return sorted[rank - 1];
}

TEST(HistogramTest, PercentilesAgreeWithASortedVector) {
  std::mt19937_64 random(7);
  for (const int count : {1, 2, 3, 10, 99, 100, 101, 5000}) {
    // Spread over eight decades, so that exact, fine and coarse buckets all occur.
    std::uniform_real_distribution<double> exponent(0, 9.5);
    Histogram histogram;
    std::vector<int64_t> values;
    for (int i = 0; i < count; ++i) {
      values.push_back(static_cast<int64_t>(std::pow(10, exponent(random))));
      histogram.Record(absl::Microseconds(values.back()));
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(histogram.count(), count);
    EXPECT_EQ(Us(histogram.max()), values.back());
    for (const double fraction : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const int64_t expected = SortedPercentile(values, fraction);
      const int64_t actual = Us(histogram.Percentile(fraction));
      EXPECT_GE(actual, expected) << fraction << " of " << count;
      EXPECT_LE(static_cast<double>(actual), static_cast<double>(expected) * 1.001)
          << fraction << " of " << count;
    }
  }
}

TEST(HistogramTest, MeanDeviationAndCurveAgreeWithASortedVector) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(0, 6);
  Histogram histogram;
  std::vector<int64_t> values;
  double sum = 0;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(static_cast<int64_t>(std::pow(10, exponent(random))));
    histogram.Record(absl::Microseconds(values.back()));
    sum += static_cast<double>(values.back());
  }
  std::sort(values.begin(), values.end());
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const int64_t value : values) {
    squares += std::pow(static_cast<double>(value) - mean, 2);
  }
  EXPECT_NEAR(absl::ToDoubleMicroseconds(histogram.Mean()), mean, 1);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  EXPECT_NEAR(absl::ToDoubleMicroseconds(histogram.StandardDeviation()), deviation,
              deviation * 0.001);
  const std::vector<PercentilePoint> curve = histogram.Curve();
  ASSERT_GT(curve.size(), 30u);
  for (const PercentilePoint& point : curve) {
    const auto above =
        std::upper_bound(values.begin(), values.end(), Us(point.duration)) - values.begin();
    EXPECT_EQ(point.count, above);
    EXPECT_DOUBLE_EQ(point.fraction, static_cast<double>(above) / 3000);
  }
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_LT(curve[i - 1].count, curve[i].count);
    const double left = 1 - curve[i - 1].fraction;
    EXPECT_TRUE(curve[i].fraction - curve[i - 1].fraction <= left / 5 + 2.0 / 3000) << i;
  }
  EXPECT_EQ(curve.back().count, 3000);
  EXPECT_EQ(Us(curve.back().duration), values.back());
  histogram.Reset();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_TRUE(histogram.Curve().empty());
  EXPECT_EQ(histogram.Mean() + histogram.StandardDeviation() + histogram.max(),
            absl::ZeroDuration());
}

TEST(HistogramTest, ExactForSmallValuesAndAtEveryBucketsEdge) {
  for (int shift = 0; shift < 31; ++shift) {
    for (const int64_t value : {(int64_t{1} << shift) - 1, int64_t{1} << shift}) {
      Histogram histogram;
      histogram.Record(absl::Microseconds(value));
      histogram.Record(absl::Hours(1));
      const int64_t p50 = Us(histogram.Percentile(0.5));
      EXPECT_GE(p50, value);
      EXPECT_LE(p50, value < 2048 ? value : value + value / 1000) << value;
    }
  }
}

TEST(HistogramTest, RoundsToTheNearestMicrosecond) {
  for (const auto& [ns, us] : {std::pair(1499, 1), {1500, 2}, {1999, 2}, {499, 0}, {500, 1}}) {
    Histogram histogram;
    histogram.Record(absl::Nanoseconds(ns));
    EXPECT_EQ(Us(histogram.max()), us) << ns;
  }
}

TEST(HistogramTest, OutOfRangeAndEmpty) {
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.max(), absl::ZeroDuration());
  histogram.Record(absl::Seconds(-1));
  EXPECT_EQ(histogram.Percentile(1), absl::ZeroDuration());
  histogram.Record(absl::InfiniteDuration());
  EXPECT_EQ(histogram.max(), absl::Hours(1));
  EXPECT_EQ(histogram.count(), 2);
}

TEST(HistogramTest, ThreadsLoseNothing) {
  Histogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 10'000; ++i) {
        histogram.Record(absl::Microseconds(i * (t + 1)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(histogram.count(), 40'000);
  EXPECT_EQ(Us(histogram.max()), 40'000);
}

}  // namespace
}  // namespace beamwright::client
