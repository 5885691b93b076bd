#include <algorithm>
#include <cmath>
#include <vector>

#include "client/load/load.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

std::vector<double> Gaps(Arrivals kind, double rate, uint64_t seed, int count) {
  ArrivalTimes times(kind, rate, seed);
  std::vector<double> gaps;
  double last = 0;
  for (int i = 0; i < count; ++i) {
    const double time = absl::ToDoubleSeconds(times.Next());
    gaps.push_back(time - last);
    last = time;
  }
  return gaps;
}

TEST(ArrivalTimesTest, EvenArrivalsDoNotDrift) {
  ArrivalTimes times(Arrivals::kEven, 3, 1);
  for (int i = 1; i < 3'000'000; ++i) {
    times.Next();
  }
  EXPECT_EQ(times.Next(), absl::Seconds(1'000'000));
}

// What makes a Poisson process: mean and standard deviation of the gaps are 1 / rate, a share of 1
// - 1/e of them is below it, and a gap says nothing about the next.
TEST(ArrivalTimesTest, PoissonGapsAreExponentialAndIndependent) {
  constexpr int kCount = 200'000;
  constexpr double kRate = 50;
  const std::vector<double> gaps = Gaps(Arrivals::kPoisson, kRate, 7, kCount);
  double sum = 0, squares = 0, products = 0;
  for (int i = 0; i < kCount; ++i) {
    sum += gaps[i];
    squares += gaps[i] * gaps[i];
    products += gaps[i] * gaps[(i + 1) % kCount];
  }
  const double mean = sum / kCount;
  const double variance = squares / kCount - mean * mean;
  EXPECT_NEAR(mean * kRate, 1, 0.01);
  EXPECT_NEAR(std::sqrt(variance) * kRate, 1, 0.02);
  EXPECT_NEAR((products / kCount - mean * mean) / variance, 0, 0.01);
  const auto below =
      std::count_if(gaps.begin(), gaps.end(), [](double gap) { return gap * kRate < 1; });
  EXPECT_NEAR(static_cast<double>(below) / kCount, 1 - std::exp(-1), 0.005);
  EXPECT_GE(*std::min_element(gaps.begin(), gaps.end()), 0);
}

TEST(ArrivalTimesTest, SeedDecides) {
  EXPECT_EQ(Gaps(Arrivals::kPoisson, 9, 3, 100), Gaps(Arrivals::kPoisson, 9, 3, 100));
  EXPECT_NE(Gaps(Arrivals::kPoisson, 9, 3, 100), Gaps(Arrivals::kPoisson, 9, 4, 100));
}

}  // namespace
}  // namespace beamwright::client
