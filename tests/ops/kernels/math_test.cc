#include "ops/kernels/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace beamwright::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Many floats of [low, high], ends included.
template <typename Check>
void Sweep(float low, float high, Check check) {
  constexpr int kCount = 400000;
  for (int i = 0; i <= kCount; ++i) {
    check(static_cast<float>(low + (double{high} - low) * i / kCount));
  }
}

void ExpectRelative(float got, double expected, double bound, float x) {
  ASSERT_LE(std::fabs(got - expected), bound * std::fabs(expected)) << "at " << x;
}

TEST(Math, RelativeErrors) {
  Sweep(-87.0f, 88.7f, [](float x) { ExpectRelative(Exp(x), std::exp(double{x}), 2e-7, x); });
  Sweep(-20.0f, 20.0f, [](float x) { ExpectRelative(Tanh(x), std::tanh(double{x}), 2e-7, x); });
  Sweep(-0.01f, 0.01f, [](float x) { ExpectRelative(Tanh(x), std::tanh(double{x}), 2e-7, x); });
  Sweep(-80.0f, 80.0f,
        [](float x) { ExpectRelative(Sigmoid(x), 1 / (1 + std::exp(-double{x})), 2e-7, x); });
  Sweep(-100.0f, 88.0f, [](float exponent) {
    const float x = static_cast<float>(std::exp(double{exponent}));
    const double expected = std::log(double{x});
    ASSERT_LE(std::fabs(Log(x) - expected), 2e-7 * std::max(1.0, std::fabs(expected))) << x;
  });
}

TEST(Math, EdgesAndNan) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(89.0f), kInfinity);
  EXPECT_GT(Exp(-100.0f), 0.0f);  // subnormal
  EXPECT_EQ(Log(1.0f), 0.0f);
  EXPECT_EQ(Log(0.0f), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
  EXPECT_NEAR(Log(1e-40f), std::log(double{1e-40f}), 1e-4);
  EXPECT_EQ(Tanh(100.0f), 1.0f);
  EXPECT_EQ(Tanh(-kInfinity), -1.0f);
  EXPECT_EQ(Sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(Sigmoid(-kInfinity), 0.0f);
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(Exp(nan)) && std::isnan(Log(nan)) && std::isnan(Tanh(nan)) &&
              std::isnan(Sigmoid(nan)));
}

// A number's result does not depend on where in an array it stands.
TEST(Math, PositionDoesNotChangeBits) {
  std::vector<float> in(67);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = 0.37f * static_cast<float>(i) - 11.0f;
  }
  for (size_t start = 0; start < in.size(); ++start) {
    std::vector<float> exp(in.size() - start), tanh(exp.size()), sigmoid(exp.size()),
        log(exp.size());
    for (size_t i = 0; i < exp.size(); ++i) exp[i] = Exp(in[start + i]);
    for (size_t i = 0; i < exp.size(); ++i) tanh[i] = Tanh(in[start + i]);
    for (size_t i = 0; i < exp.size(); ++i) sigmoid[i] = Sigmoid(in[start + i]);
    for (size_t i = 0; i < exp.size(); ++i) log[i] = Log(std::fabs(in[start + i]));
    for (size_t i = 0; i < exp.size(); ++i) {
      volatile float x = in[start + i];
      EXPECT_EQ(exp[i], Exp(x));
      EXPECT_EQ(tanh[i], Tanh(x));
      EXPECT_EQ(sigmoid[i], Sigmoid(x));
      EXPECT_EQ(log[i], Log(std::fabs(x)));
    }
  }
}

TEST(Math, LaneSumCountsEveryElementOnce) {
  for (int64_t count = 0; count < 70; ++count) {
    EXPECT_EQ(LaneSum(count, [](int64_t i) { return static_cast<float>(i + 1); }),
              static_cast<float>(count * (count + 1) / 2));
  }
}

}  // namespace
}  // namespace beamwright::ops
