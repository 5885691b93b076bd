// Normalisations against their formulas in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectNear(const Tensor& out, const std::vector<double>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(static_cast<size_t>(out.num_elements()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(Floats(out)[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

// Every element over its group: all elements with the same index on the axes that are not reduced.
// formula(x, elements of the group) is the expected value.
template <typename Formula>
std::vector<double> ByGroup(const Tensor& data, const std::vector<int64_t>& axes, Formula formula) {
  const std::vector<float> values = Floats(data);
  const auto key = [&](int64_t element) {
    std::vector<int64_t> index;
    for (int axis = data.rank() - 1; axis >= 0; --axis) {
      const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
      index.push_back(reduced ? 0 : element % data.dim(axis));
      element /= data.dim(axis);
    }
    return index;
  };
  std::vector<double> result;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    std::vector<double> group;
    for (int64_t j = 0; j < data.num_elements(); ++j) {
      if (key(i) == key(j)) group.push_back(values[static_cast<size_t>(j)]);
    }
    result.push_back(formula(values[static_cast<size_t>(i)], group));
  }
  return result;
}

double Mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
double Variance(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += (v - Mean(x)) * (v - Mean(x));
  return sum / static_cast<double>(x.size());
}

TEST(Mvn, EqualsTheFormula) {
  Random random(1);
  const Tensor data = random.Floats({2, 3, 4, 5}, -3, 5);
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{3}, {1, 2, 3}, {0, 2}, {1}, {0, 1, 2, 3}}) {
    const Tensor list = I64({static_cast<int64_t>(axes.size())}, axes);
    for (const bool inside : {false, true}) {
      const Tensor out =
          RunOne({"MVN",
                  {data, list},
                  {{"eps", 0.3},
                   {"normalize_variance", true},
                   {"eps_mode", std::string(inside ? "inside_sqrt" : "outside_sqrt")}},
                  1,
                  {1}});
      ExpectNear(out, ByGroup(data, axes, [&](double x, const std::vector<double>& group) {
                   const double v = Variance(group);
                   return (x - Mean(group)) / (inside ? std::sqrt(v + 0.3) : std::sqrt(v) + 0.3);
                 }));
    }
    ExpectNear(RunOne({"MVN", {data, list}, {{"normalize_variance", false}}}),
               ByGroup(data, axes,
                       [](double x, const std::vector<double>& group) { return x - Mean(group); }));
  }
}

TEST(Mvn, Version1HasItsAxesInAnAttribute) {
  Random random(2);
  const Tensor data = random.Floats({2, 3, 4});
  for (const bool across : {false, true}) {
    const std::vector<int64_t> axes = across ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2};
    ExpectNear(RunOne({"MVN", {data}, {{"eps", 0.1}, {"across_channels", across}}}),
               ByGroup(data, axes, [](double x, const std::vector<double>& group) {
                 return (x - Mean(group)) / (std::sqrt(Variance(group)) + 0.1);
               }));
  }
}

TEST(NormalizeL2, EqualsTheFormula) {
  Random random(3);
  const Tensor data = random.Floats({2, 3, 4});
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{}, {1}, {1, 2}, {0}}) {
    for (const bool largest : {false, true}) {
      const Tensor out =
          RunOne({"NormalizeL2",
                  {data, I64({static_cast<int64_t>(axes.size())}, axes)},
                  {{"eps", 0.5}, {"eps_mode", std::string(largest ? "max" : "add")}}});
      ExpectNear(out, ByGroup(data, axes, [&](double x, const std::vector<double>& group) {
                   double squares = 0;
                   for (const double v : group) squares += v * v;
                   return x / std::sqrt(largest ? std::max(squares, 0.5) : squares + 0.5);
                 }));
    }
  }
}

TEST(BatchNormInference, EqualsTheFormulaInBothVersions) {
  Random random(4);
  const Tensor data = random.Floats({2, 3, 5}), gamma = random.Floats({3}),
               beta = random.Floats({3}), mean = random.Floats({3}),
               variance = random.Floats({3}, 0.1f, 2);
  std::vector<double> expected;
  for (size_t i = 0; i < 30; ++i) {
    const size_t c = i / 5 % 3;
    expected.push_back((Floats(data)[i] - Floats(mean)[c]) / std::sqrt(Floats(variance)[c] + 0.01) *
                           Floats(gamma)[c] +
                       Floats(beta)[c]);
  }
  const std::vector<std::pair<std::string, AttributeValue>> epsilon = {{"epsilon", 0.01}};
  ExpectNear(RunOne({"BatchNormInference", {data, gamma, beta, mean, variance}, epsilon}),
             expected);
  Call old{"BatchNormInference", {gamma, beta, data, mean, variance}, epsilon};
  old.constants = {0, 1, 3, 4};
  ExpectNear(RunOne(old), expected);
}

TEST(GroupNormalization, EqualsTheFormula) {
  Random random(5);
  const Tensor data = random.Floats({2, 6, 3}), scale = random.Floats({6}),
               bias = random.Floats({6});
  const Tensor out = RunOne(
      {"GroupNormalization", {data, scale, bias}, {{"num_groups", int64_t{3}}, {"epsilon", 0.2}}});
  // [2, 6, 3] as [2, 3, 6]: a group's two channels are neighbours.
  const Tensor grouped = data.Reshaped({2, 3, 6});
  std::vector<double> expected =
      ByGroup(grouped, {2}, [](double x, const std::vector<double>& group) {
        return (x - Mean(group)) / std::sqrt(Variance(group) + 0.2);
      });
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = expected[i] * Floats(scale)[i / 3 % 6] + Floats(bias)[i / 3 % 6];
  }
  ExpectNear(out, expected);
}

TEST(Normalization, OtherFloatTypes) {
  Random random(6);
  const Tensor data = random.Floats({2, 4, 4}), list = random.Floats({4}, 0.5f, 1);
  const auto calls = [&](DType dtype) {
    const Tensor x = *Convert(data, dtype), p = *Convert(list, dtype);
    return std::vector<Call>{
        {"MVN", {x, I64({1}, {2})}, {{"eps", 0.1}}},
        {"NormalizeL2", {x, I64({1}, {1})}, {{"eps", 0.1}}},
        {"BatchNormInference", {x, p, p, p, p}, {{"epsilon", 0.1}}},
        {"GroupNormalization", {x, p, p}, {{"num_groups", int64_t{2}}, {"epsilon", 0.1}}}};
  };
  const std::vector<Call> singles = calls(DType::kF32);
  for (size_t i = 0; i < singles.size(); ++i) {
    const std::vector<float> expected = Floats(RunOne(singles[i]));
    const Tensor wide = RunOne(calls(DType::kF64)[i]);
    EXPECT_EQ(wide.dtype(), DType::kF64);
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      const Tensor narrow = RunOne(calls(dtype)[i]);
      EXPECT_EQ(narrow.dtype(), dtype);
      for (size_t j = 0; j < expected.size(); ++j) {
        EXPECT_NEAR(Floats(narrow)[j], expected[j], dtype == DType::kF16 ? 0.02 : 0.15);
        EXPECT_NEAR(Floats(wide)[j], expected[j], 1e-5);
      }
    }
  }
}

TEST(Normalization, RefusesWhatCannotBe) {
  const Tensor data = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ErrorOf({"MVN", {data, I64({1}, {2})}}), HasSubstr("axis 2"));
  EXPECT_THAT(ErrorOf({"MVN", {data, I64({2}, {1, -1})}}), HasSubstr("named twice"));
  EXPECT_THAT(ErrorOf({"MVN", {data, I64({1}, {1})}, {{"eps_mode", std::string("no")}}}),
              HasSubstr("eps_mode"));
  EXPECT_THAT(ErrorOf({"MVN", {data, I64({1}, {1})}, {{"across_channels", true}}}),
              HasSubstr("across_channels"));
  EXPECT_THAT(ErrorOf({"MVN", {data}, {{"eps", -1.0}}}), HasSubstr("eps: -1"));
  EXPECT_THAT(ErrorOf({"MVN", {I64({1}, {1})}}), HasSubstr("element type i64"));
  const Tensor two = F32({2}, {1, 1});
  EXPECT_THAT(ErrorOf({"BatchNormInference", {data, two, two, two, two}}),
              HasSubstr("gamma: has 2 elements for 3 channels"));
  EXPECT_THAT(ErrorOf({"GroupNormalization",
                       {data, F32({3}, {1, 1, 1}), F32({3}, {1, 1, 1})},
                       {{"num_groups", int64_t{2}}}}),
              HasSubstr("2 does not divide 3"));
  EXPECT_THAT(ErrorOf({"GroupNormalization", {data, two, two}}), HasSubstr("num_groups: 0"));
}

}  // namespace
}  // namespace beamwright::ops
