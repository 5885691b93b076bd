#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using RealFunction = long double (*)(long double);

// Both precisions against long double, over [low, high].
void CheckFunction(const Call& form, RealFunction function, double low, double high) {
  SCOPED_TRACE(form.op);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Tensor x = Random(1).Floats({3, 41}, static_cast<float>(low), static_cast<float>(high));
    x = *Convert(x, dtype);
    Call call = form;
    call.inputs.insert(call.inputs.begin(), x);
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      call.inputs[i] = *Convert(call.inputs[i], dtype);
    }
    const Tensor in = *Convert(x, DType::kF64), out = *Convert(RunOne(call), DType::kF64);
    const double error = dtype == DType::kF32 ? 5e-7 : 1e-14;
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      const auto expected = static_cast<double>(function(in.data<double>()[i]));
      ASSERT_NEAR(out.data<double>()[i], expected, error * std::max(1.0, std::fabs(expected)))
          << "of " << in.data<double>()[i];
    }
  }
}

TEST(Activation, RealFunctions) {
  CheckFunction({"Erf", {}}, std::erf, -4, 4);
  CheckFunction({"Sin", {}}, std::sin, -9, 9);
  CheckFunction({"Cos", {}}, std::cos, -9, 9);
  CheckFunction({"Tan", {}}, std::tan, -1.4, 1.4);
  CheckFunction({"Asin", {}}, std::asin, -1, 1);
  CheckFunction({"Acos", {}}, std::acos, -1, 1);
  CheckFunction({"Atan", {}}, std::atan, -9, 9);
  CheckFunction({"Sinh", {}}, std::sinh, -9, 9);
  CheckFunction({"Cosh", {}}, std::cosh, -9, 9);
  CheckFunction({"Asinh", {}}, std::asinh, -9, 9);
  CheckFunction({"Acosh", {}}, std::acosh, 1, 9);
  CheckFunction({"Atanh", {}}, std::atanh, -0.9, 0.9);
  CheckFunction({"Exp", {}}, std::exp, -9, 9);
  CheckFunction({"Log", {}}, std::log, 0.1, 9);
  CheckFunction({"Tanh", {}}, std::tanh, -9, 9);
  CheckFunction({"Sqrt", {}}, std::sqrt, 0, 9);
  CheckFunction(
      {"Sigmoid", {}}, [](long double x) { return 1 / (1 + std::exp(-x)); }, -20, 20);
  CheckFunction(
      {"SoftPlus", {}}, [](long double x) { return std::log(1 + std::exp(x)); }, -20, 20);
  CheckFunction(
      {"SoftSign", {}}, [](long double x) { return x / (1 + std::fabs(x)); }, -9, 9);
  CheckFunction(
      {"Mish", {}}, [](long double x) { return x * std::tanh(std::log(1 + std::exp(x))); }, -20,
      20);
  CheckFunction(
      {"HSigmoid", {}}, [](long double x) { return std::clamp<long double>(x + 3, 0, 6) / 6; }, -6,
      6);
  CheckFunction(
      {"HSwish", {}}, [](long double x) { return x * std::clamp<long double>(x + 3, 0, 6) / 6; },
      -6, 6);
}

TEST(Activation, WithParameters) {
  const auto one = [](float value) { return F32({1}, {value}); };
  CheckFunction(
      {"Elu", {}, {{"alpha", 0.5}}},
      [](long double x) { return x < 0 ? 0.5L * (std::exp(x) - 1) : x; }, -9, 9);
  const RealFunction gelu = [](long double x) {
    return x / 2 * (1 + std::erf(x / std::sqrt(2.0L)));
  };
  CheckFunction({"Gelu", {}}, gelu, -9, 9);
  CheckFunction({"Gelu", {}, {{"approximation_mode", std::string("erf")}}}, gelu, -9, 9);
  CheckFunction(
      {"Gelu", {}, {{"approximation_mode", std::string("tanh")}}},
      [](long double x) {
        return x / 2 *
               (1 +
                std::tanh(std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x)));
      },
      -9, 9);
  CheckFunction(
      {"HardSigmoid", {Tensor::Scalar(0.25f), Tensor::Scalar(0.5f)}},
      [](long double x) { return std::clamp<long double>(x / 4 + 0.5L, 0, 1); }, -5, 5);
  CheckFunction(
      {"Selu", {one(1.5f), one(1.25f)}},
      [](long double x) { return 1.25L * (x > 0 ? x : 1.5L * (std::exp(x) - 1)); }, -9, 9);
  CheckFunction(
      {"Swish", {}}, [](long double x) { return x / (1 + std::exp(-x)); }, -9, 9);
  CheckFunction(
      {"Swish", {Tensor::Scalar(2.0f)}}, [](long double x) { return x / (1 + std::exp(-2 * x)); },
      -9, 9);
}

// Far out nothing overflows into NaN.
TEST(Activation, Tails) {
  const Tensor far = F32({2}, {-1000, 1000});
  EXPECT_THAT(Floats(RunOne({"SoftPlus", {far}})), ElementsAre(0, 1000));
  EXPECT_THAT(Floats(RunOne({"Mish", {far}})), ElementsAre(0, 1000));
  EXPECT_THAT(Floats(RunOne({"Swish", {far}})), ElementsAre(0, 1000));
  EXPECT_THAT(Floats(RunOne({"Gelu", {far}})), ElementsAre(0, 1000));
  EXPECT_THAT(Floats(RunOne({"Gelu", {far}, {{"approximation_mode", std::string("tanh")}}})),
              ElementsAre(0, 1000));
}

TEST(Activation, PreluAlongChannelsOrBroadcast) {
  const Tensor x = F32({2, 3, 2}, {-1, 1, -1, 1, -1, 1, -2, 2, -2, 2, -2, 2});
  EXPECT_THAT(Floats(RunOne({"PReLU", {x, F32({3}, {10, 20, 30})}})),
              ElementsAre(-10, 1, -20, 1, -30, 1, -20, 2, -40, 2, -60, 2));
  EXPECT_THAT(Floats(RunOne({"PReLU", {x, F32({2}, {10, 20})}})),
              ElementsAre(-10, 1, -10, 1, -10, 1, -20, 2, -20, 2, -20, 2));
  EXPECT_THAT(Floats(RunOne({"PReLU", {x, F32({1}, {3})}}))[10], -6);
  EXPECT_THAT(Floats(RunOne({"PReLU", {F32({2}, {-1, -1}), F32({2}, {3, 4})}})),
              ElementsAre(-3, -4));
  EXPECT_THAT(ErrorOf({"PReLU", {x, F32({5}, {1, 1, 1, 1, 1})}}),
              HasSubstr("slope: shape [5] does not broadcast to [2, 3, 2]"));
  EXPECT_THAT(ErrorOf({"PReLU", {F32({1}, {1}), F32({2, 1}, {1, 1})}}), HasSubstr("slope"));
}

TEST(Activation, Errors) {
  const Tensor x = F32({2}, {1, 2});
  EXPECT_THAT(ErrorOf({"Elu", {x}}), HasSubstr("attribute alpha is required"));
  EXPECT_THAT(ErrorOf({"Gelu", {x}, {{"approximation_mode", std::string("fast")}}}),
              HasSubstr("approximation_mode: 'fast'"));
  EXPECT_THAT(ErrorOf({"HardSigmoid", {x, x, x}}), HasSubstr("alpha: shape [2]"));
  EXPECT_THAT(ErrorOf({"HardSigmoid", {x}}), HasSubstr("has 1 inputs, expected 3"));
  EXPECT_THAT(ErrorOf({"Selu", {x, Tensor::Scalar(1.0f), Tensor::Scalar<int64_t>(1)}}),
              HasSubstr("lambda: element type i64"));
  EXPECT_THAT(ErrorOf({"Mish", {I64({1}, {1})}}), HasSubstr("i64 is not supported"));
}

}  // namespace
}  // namespace beamwright::ops
