#include "ops/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;

// Every half: exact to float, and back to the same bits (NaN stays NaN).
TEST(Half, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const float value = ToFloat(half);
    const int exponent = static_cast<int>((bits >> 10) & 0x1f);
    const auto mantissa = static_cast<double>(bits & 0x3ff);
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(ToFloat(ToHalf(value))));
      continue;
    }
    double expected =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    expected = exponent == 31 ? std::numeric_limits<double>::infinity() : expected;
    EXPECT_EQ(value, (bits & 0x8000) != 0 ? -expected : expected);
    EXPECT_EQ(ToHalf(value).bits, bits);
  }
}

// Rounding to nearest even: the nearest of the two neighbours, found by exhaustive distance.
TEST(Half, RoundsToNearestEven) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> exponent(-27, 17);
  for (int i = 0; i < 200000; ++i) {
    const auto value = static_cast<float>(std::exp2(exponent(random)) * (i % 2 == 0 ? 1 : -1));
    const Half rounded = ToHalf(value);
    const double error = std::abs(static_cast<double>(ToFloat(rounded)) - value);
    for (const int step : {-1, 1}) {
      const Half other{static_cast<uint16_t>(rounded.bits + step)};
      const double distance = std::abs(static_cast<double>(ToFloat(other)) - value);
      if (std::isnan(distance) || std::isinf(ToFloat(rounded))) {
        continue;
      }
      EXPECT_TRUE(error < distance || (error == distance && rounded.bits % 2 == 0)) << value;
    }
  }
  EXPECT_EQ(ToHalf(65519.0f).bits, 0x7bff);
  EXPECT_EQ(ToHalf(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToHalf(std::ldexp(1.0f, -25)).bits, 0);  // tie to even zero
  EXPECT_EQ(ToHalf(std::ldexp(1.5f, -25)).bits, 1);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(ToBFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToFloat(ToBFloat16(1.00390625f)), 1.0f);       // tie, down to even
  EXPECT_EQ(ToFloat(ToBFloat16(1.01171875f)), 1.015625f);  // tie, up to even
  EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Tensor, CopiesShareAndResizeLeavesSharersAlone) {
  Tensor a = Tensor::Of<int32_t>({2, 2}, std::vector<int32_t>{1, 2, 3, 4});
  const Tensor b = a;
  EXPECT_EQ(a.bytes(), b.bytes());
  a.Resize(DType::kI32, {2, 2});
  a.mutable_data<int32_t>()[0] = 9;
  EXPECT_EQ(b.data<int32_t>()[0], 1);
}

TEST(Tensor, ResizeKeepsABufferThatItOwnsAlone) {
  Tensor a(DType::kF32, {100});
  const std::byte* before = a.bytes();
  a.Resize(DType::kI64, {3});
  EXPECT_EQ(a.bytes(), before);
  const Tensor view = a.Rows(1, 2);
  a.Resize(DType::kI64, {3});
  EXPECT_NE(a.bytes(), before);
}

TEST(Tensor, RowsAreViews) {
  const Tensor a = Tensor::Of<float>({3, 2}, std::vector<float>{0, 1, 2, 3, 4, 5});
  const Tensor rows = a.Rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_EQ(rows.data<float>()[0], 2);
  EXPECT_EQ(a.Rows(2, 2).num_elements(), 0);
}

TEST(Convert, SaturatesWrapsAndTruncates) {
  const Tensor floats = Tensor::Of<float>(
      {5}, std::vector<float>{-1.9f, 300.0f, std::numeric_limits<float>::quiet_NaN(), 1e30f, 0});
  const Tensor ints = *Convert(floats, DType::kI32);
  EXPECT_THAT(ints.span<int32_t>(),
              ::testing::ElementsAre(-1, 300, 0, std::numeric_limits<int32_t>::max(), 0));
  const Tensor wide = Tensor::Of<int64_t>({2}, std::vector<int64_t>{257, -1});
  EXPECT_THAT(Convert(wide, DType::kU8)->span<uint8_t>(), ::testing::ElementsAre(1, 255));
  EXPECT_THAT(Convert(floats, DType::kBool)->span<bool>(),
              ::testing::ElementsAre(true, true, true, true, false));
}

TEST(ToInt64, RefusesFloatsAndHugeValues) {
  EXPECT_THAT(ToInt64(Tensor::Scalar(1.0f)).status().message(), HasSubstr("f32"));
  EXPECT_FALSE(ToInt64(Tensor::Scalar(uint64_t{1} << 63)).ok());
  EXPECT_THAT(*ToInt64(Tensor::Scalar(int8_t{-3})), ::testing::ElementsAre(-3));
}

TEST(Shape, ElementCountsAreChecked) {
  EXPECT_EQ(*CheckedNumElements({}), 1);
  EXPECT_EQ(*CheckedNumElements({3, 0, int64_t{1} << 40}), 0);
  EXPECT_FALSE(CheckedNumElements({int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_THAT(CheckedNumElements({2, -1}).status().message(), HasSubstr("[2, ?]"));
}

TEST(Shape, Broadcasting) {
  EXPECT_EQ(*BroadcastShapes({4, 1, 3}, {2, 1}), (Shape{4, 2, 3}));
  EXPECT_EQ(*BroadcastShapes({}, {2}), (Shape{2}));
  EXPECT_EQ(*BroadcastShapes({0}, {1}), (Shape{0}));
  EXPECT_THAT(BroadcastShapes({2}, {3}).status().message(), HasSubstr("[2] and [3]"));
}

TEST(Shape, Axes) {
  EXPECT_EQ(*NormalizeAxis(-1, 3), 2);
  EXPECT_THAT(NormalizeAxis(3, 3).status().message(), HasSubstr("[-3, 2]"));
  EXPECT_FALSE(NormalizeAxis(0, 0).ok());
}

TEST(DType, NamesOfBothKinds) {
  EXPECT_EQ(*ParseDType("FP16"), DType::kF16);
  EXPECT_EQ(*ParseDType("boolean"), DType::kBool);
  EXPECT_EQ(*ParseDType("BOOL"), DType::kBool);
  EXPECT_THAT(ParseDType("f8").status().message(), HasSubstr("'f8'"));
  EXPECT_FALSE(ParseDType("undefined").ok());
}

TEST(TensorLimit, IsTheLowestOfThoseAround) {
  EXPECT_EQ(MaxTensorBytes(), kMaxTensorBytes);
  {
    const TensorLimit outer(1 << 20);
    EXPECT_EQ(TooLarge("x").message(), "x is larger than 1 MiB");
    {
      const TensorLimit inner(1500);
      EXPECT_EQ(TooLarge("x").message(), "x is larger than 1500 bytes");
      const TensorLimit higher(1 << 30);
      EXPECT_EQ(MaxTensorBytes(), 1500);
    }
    EXPECT_EQ(MaxTensorBytes(), 1 << 20);
    int64_t elsewhere = 0;
    std::thread([&] { elsewhere = MaxTensorBytes(); }).join();
    EXPECT_EQ(elsewhere, kMaxTensorBytes);
  }
  EXPECT_EQ(TooLarge("x").message(), "x is larger than 8 GiB");
  EXPECT_EQ(TooLarge("x").code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace

}  // namespace beamwright::ops
