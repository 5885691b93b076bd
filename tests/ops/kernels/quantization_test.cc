#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/base/vector_isa.h"
#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Tensor Bytes(Shape shape, std::vector<int64_t> values, DType dtype = DType::kU8) {
  return *Convert(I64(std::move(shape), std::move(values)), dtype);
}

TEST(Quantization, OnnxVectors) {
  if (!HaveOnnxVectors()) GTEST_SKIP();
  const std::pair<const char*, const char*> tests[] = {
      {"test_quantizelinear", "QuantizeLinear"},
      {"test_quantizelinear_axis", "QuantizeLinear"},
      {"test_dequantizelinear", "DequantizeLinear"},
      {"test_dequantizelinear_axis", "DequantizeLinear"},
      {"test_dynamicquantizelinear", "DynamicQuantizeLinear"},
      {"test_dynamicquantizelinear_max_adjusted", "DynamicQuantizeLinear"},
      {"test_dynamicquantizelinear_min_adjusted", "DynamicQuantizeLinear"},
      {"test_matmulinteger", "MatMulInteger"},
      {"test_qlinearmatmul_2D", "QLinearMatMul"},
      {"test_qlinearmatmul_3D", "QLinearMatMul"}};
  for (const auto& [name, op] : tests) {
    const OnnxVectors v = ReadOnnxVectors(name);
    Call call{op};
    for (size_t i = 0; i < v.input_names.size(); ++i) call.inputs.push_back(v.input(i));
    for (const auto& [attribute, value] : v.attributes) {
      call.attributes.emplace_back(attribute, value);
    }
    call.num_outputs = static_cast<int>(v.output_names.size());
    const std::vector<Tensor> outputs = *RunAll(call);
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(SameBits(outputs[i], v.output(i))) << name;
    }
  }
}

TEST(QuantizeLinear, RoundsHalfToEvenAndSaturatesInEveryType) {
  const Tensor x = F32({7}, {0.5f, 1.5f, -0.5f, -1.5f, 1e6f, -1e6f, 2.4f});
  const Tensor one = Tensor::Scalar(1.0f);
  const auto run = [&](DType dtype) {
    const Tensor out = RunOne({"QuantizeLinear", {x, one, Bytes({}, {0}, dtype)}});
    EXPECT_EQ(out.dtype(), dtype);
    return Integers(out);
  };
  EXPECT_THAT(run(DType::kU8), ElementsAre(0, 2, 0, 0, 255, 0, 2));
  EXPECT_THAT(run(DType::kI8), ElementsAre(0, 2, 0, -2, 127, -128, 2));
  EXPECT_THAT(run(DType::kU16), ElementsAre(0, 2, 0, 0, 65535, 0, 2));
  EXPECT_THAT(run(DType::kI16), ElementsAre(0, 2, 0, -2, 32767, -32768, 2));
  EXPECT_EQ(RunOne({"QuantizeLinear", {x, one}}).dtype(), DType::kU8);
  EXPECT_EQ(RunOne({"QuantizeLinear", {x, one}, {{"output_dtype", std::string("i16")}}}).dtype(),
            DType::kI16);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kI32}) {
    const Tensor four = *Convert(I64({2}, {4, 6}), dtype);
    EXPECT_THAT(Integers(RunOne({"QuantizeLinear", {four, Tensor::Scalar(4.0f)}})),
                ElementsAre(1, 2))
        << Name(dtype);  // 6 / 4 = 1.5
  }
}

TEST(DequantizeLinear, EveryTypePerAxisAndBlocked) {
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32}) {
    const Tensor x = Bytes({2, 3}, {1, 2, 3, 4, 5, 6}, dtype);
    EXPECT_THAT(Floats(RunOne({"DequantizeLinear",
                               {x, F32({2}, {1, 10}), Bytes({2}, {0, 1}, dtype)},
                               {{"axis", int64_t{0}}}})),
                ElementsAre(1, 2, 3, 30, 40, 50));
    EXPECT_THAT(Floats(RunOne({"DequantizeLinear",
                               {x, F32({2, 2}, {1, 10, 100, 1000})},
                               {{"axis", int64_t{-1}}, {"block_size", int64_t{2}}}})),
                ElementsAre(1, 2, 30, 400, 500, 6000));
    EXPECT_THAT(Floats(RunOne({"DequantizeLinear",
                               {x, F32({1, 3}, {1, 10, 100})},
                               {{"axis", int64_t{0}}, {"block_size", int64_t{2}}}})),
                ElementsAre(1, 20, 300, 4, 50, 600));
  }
  EXPECT_EQ(
      RunOne({"DequantizeLinear", {Bytes({1}, {1}), *Convert(Tensor::Scalar(0.5f), DType::kF16)}})
          .dtype(),
      DType::kF16);
}

TEST(Quantization, RefusesScalesThatDoNotFit) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ErrorOf({"QuantizeLinear", {x, F32({2}, {1, 1})}}), HasSubstr("y_scale: shape [2]"));
  EXPECT_THAT(ErrorOf({"QuantizeLinear", {x, F32({3}, {1, 1, 1}), Bytes({1}, {0})}}),
              HasSubstr("y_zero_point: shape [1]"));
  EXPECT_THAT(
      ErrorOf({"QuantizeLinear", {x, F32({2, 2}, {1, 1, 1, 1})}, {{"block_size", int64_t{1}}}}),
      HasSubstr("y_scale"));
  EXPECT_THAT(ErrorOf({"QuantizeLinear", {x, Tensor::Scalar(1.0f), Bytes({}, {0}, DType::kI32)}}),
              HasSubstr("y_zero_point: element type i32"));
  EXPECT_THAT(
      ErrorOf(
          {"QuantizeLinear", {x, Tensor::Scalar(1.0f)}, {{"output_dtype", std::string("f32")}}}),
      HasSubstr("f32"));
  EXPECT_THAT(ErrorOf({"MatMulInteger",
                       {Bytes({1, 2}, {1, 2}), Bytes({2, 1}, {1, 2}), Bytes({2}, {0, 0})}}),
              HasSubstr("a_zero_point"));
  EXPECT_THAT(ErrorOf({"MatMulInteger", {Bytes({1, 2}, {1, 2}), Bytes({3, 1}, {1, 2, 3})}}),
              HasSubstr("do not multiply"));
}

// As ONNX Runtime has it.
TEST(DynamicQuantizeLinear, AllZerosHaveScaleOne) {
  const std::vector<Tensor> outputs = *RunAll({"DynamicQuantizeLinear", {F32({2}, {0, 0})}, {}, 3});
  EXPECT_THAT(Integers(outputs[0]), ElementsAre(0, 0));
  EXPECT_THAT(Floats(outputs[1]), ElementsAre(1));
  EXPECT_THAT(Integers(outputs[2]), ElementsAre(0));
}

// Each item of any axis gets what it gets alone.
TEST(DynamicQuantizeLinear, ItemsAreWhatTheyAreAlone) {
  Random random(3);
  for (const int axis : {0, 1, 2}) {
    for (const int64_t extent : {1, 2}) {
      const Tensor x = random.Floats({4, 6, 2}, -2, 3);
      const int64_t count = x.dim(axis) / extent;
      const std::vector<Tensor> all =
          *RunAll({"DynamicQuantizeLinear",
                   {x},
                   {{"item_axis", int64_t{axis}}, {"item_extent", extent}},
                   3});
      for (int64_t item = 0; item < count; ++item) {
        const auto part = [&](const Tensor& of) {
          return RunOne({"Slice",
                         {of, I64({1}, {item * extent}), I64({1}, {(item + 1) * extent}),
                          I64({1}, {1}), I64({1}, {axis})}});
        };
        const std::vector<Tensor> alone = *RunAll({"DynamicQuantizeLinear", {part(x)}, {}, 3});
        EXPECT_TRUE(SameBits(part(all[0]), alone[0]));
        for (const float scale : Floats(part(all[1]))) {
          EXPECT_EQ(scale, Floats(alone[1])[0]);
        }
        for (const int64_t zero : Integers(part(all[2]))) {
          EXPECT_EQ(zero, Integers(alone[2])[0]);
        }
      }
    }
  }
}

TEST(DynamicQuantizeLinear, ItemsMustFitTheirAxis) {
  const auto error = [](int64_t axis, int64_t extent) {
    return ErrorOf({"DynamicQuantizeLinear",
                    {F32({2, 3}, {0, 1, 2, 3, 4, 5})},
                    {{"item_axis", axis}, {"item_extent", extent}},
                    3});
  };
  EXPECT_THAT(error(2, 1), HasSubstr("item_axis"));
  EXPECT_THAT(error(1, 2), HasSubstr("item_extent"));
  EXPECT_THAT(error(1, 0), HasSubstr("item_extent"));
}

// Sums are exact where f32 would not be, and wrap where i32 does.
TEST(MatMulInteger, EqualsIntegerSums) {
  Random random(1);
  for (int trial = 0; trial < 24; ++trial) {
    const DType left = trial % 2 == 0 ? DType::kU8 : DType::kI8;
    const DType right = trial % 4 < 2 ? DType::kU8 : DType::kI8;
    // Every third is deep and high enough for tiles.
    const bool large = trial % 3 == 0;
    const int64_t m = random.Int(1, large ? 30 : 9),
                  k = random.Int(large ? 61 : 1, large ? 150 : 60),
                  n = random.Int(1, large ? 300 : 40);
    const auto bytes = [&](const Shape& shape, DType type) {
      return random.Ints(shape, type == DType::kU8 ? 0 : -128, type == DType::kU8 ? 255 : 127,
                         type);
    };
    const Tensor a = bytes({2, m, k}, left);
    const Tensor b = bytes({k, n}, right);
    const Tensor a_zero = random.Ints({m}, 0, 100, left);
    const Tensor b_zero = random.Ints({n}, 0, 100, right);
    const std::vector<int64_t> out = Integers(RunOne({"MatMulInteger", {a, b, a_zero, b_zero}}));
    for (const VectorIsa isa :
         {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512, VectorIsa::kAmx}) {
      const ScopedVectorIsa scope(isa);
      const Call packed{"MatMulInteger", {a, b, a_zero, b_zero}, {}, 1, {1, 3}};
      ASSERT_EQ(Integers(RunOne(packed)), out) << "packed";
    }
    const std::vector<int64_t> as = Integers(a), bs = Integers(b);
    const std::vector<int64_t> a_zeros = Integers(a_zero), b_zeros = Integers(b_zero);
    for (int64_t row = 0; row < 2 * m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        int64_t sum = 0;
        for (int64_t d = 0; d < k; ++d) {
          sum += (as[static_cast<size_t>(row * k + d)] - a_zeros[static_cast<size_t>(row % m)]) *
                 (bs[static_cast<size_t>(d * n + column)] - b_zeros[static_cast<size_t>(column)]);
        }
        ASSERT_EQ(out[static_cast<size_t>(row * n + column)], sum);
      }
    }
  }
  const int64_t depth = 1000;  // 255 * 255 * 1000 is above 2^24 and odd
  const Tensor row = Bytes({1, depth}, std::vector<int64_t>(depth, 255));
  EXPECT_THAT(Integers(RunOne({"MatMulInteger", {row, row.Reshaped({depth, 1})}})),
              ElementsAre(65025000));
}

// The largest bytes there are, at which pairs of products leave 16 bits.
TEST(MatMulInteger, TheLargestBytesAreExact) {
  for (const auto& [byte, type] : {std::pair{255, DType::kU8}, std::pair{-128, DType::kI8}}) {
    const int64_t depth = 203;
    const Tensor a = Bytes({9, depth}, std::vector<int64_t>(9 * depth, 255));
    Tensor b(type, {depth, 40});
    std::memset(b.mutable_bytes(), byte & 0xff, static_cast<size_t>(b.num_bytes()));
    for (const VectorIsa isa :
         {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512, VectorIsa::kAmx}) {
      const ScopedVectorIsa scope(isa);
      const Call packed{"MatMulInteger", {a, b}, {}, 1, {1}};
      EXPECT_THAT(Integers(RunOne(packed)), Each(255 * byte * depth));
    }
  }
}

TEST(MatMulInteger, EmptySumsAreZeroAndNoRowsGiveNone) {
  const auto multiplied = [](const Shape& a, const Shape& b) {
    return RunOne({"MatMulInteger", {Bytes(a, {}), Bytes(b, {})}, {}, 1, {1}});
  };
  EXPECT_THAT(Integers(multiplied({9, 0}, {0, 2})), ElementsAreArray(std::vector<int64_t>(18, 0)));
  const Tensor none = Bytes({7, 3}, std::vector<int64_t>(21, 1));
  EXPECT_EQ(RunOne({"MatMulInteger", {Bytes({0, 7}, {}), none}, {}, 1, {1}}).num_elements(), 0);
}

// A zero point for each item of a batch, as a scale by item has it.
TEST(MatMulInteger, AZeroPointMayGoWithTheBatch) {
  Random random(4);
  const Tensor a = random.Ints({2, 3, 5}, 0, 255, DType::kU8);
  const Tensor b = random.Ints({5, 4}, -128, 127, DType::kI8);
  const Tensor zeros = random.Ints({2, 1, 1}, 0, 255, DType::kU8);
  for (const std::vector<size_t>& constants : {std::vector<size_t>{}, {1}}) {
    const Tensor all = RunOne({"MatMulInteger", {a, b, zeros}, {}, 1, constants});
    for (int64_t item = 0; item < 2; ++item) {
      const auto part = [&](const Tensor& of) {
        return RunOne(
            {"Slice", {of, I64({1}, {item}), I64({1}, {item + 1}), I64({1}, {1}), I64({1}, {0})}});
      };
      const Tensor zero = part(zeros).Reshaped({});
      EXPECT_TRUE(SameBits(part(all), RunOne({"MatMulInteger", {part(a), b, zero}})));
    }
  }
}

// product * (a_scale * b_scale) + bias + addend, each rounded by itself.
TEST(ScaledIntegerProduct, RoundsInThisOrder) {
  Random random(5);
  const int64_t rows = 5, depth = 7, columns = 70;
  const Tensor a = random.Ints({1, rows, depth}, 0, 255, DType::kU8);
  const Tensor b = random.Ints({depth, columns}, -128, 127, DType::kI8);
  const Tensor a_zero = random.Ints({1, rows, 1}, 0, 255, DType::kU8);
  const Tensor b_zero = random.Ints({columns}, -128, 127, DType::kI8);
  const Tensor a_scale = random.Floats({1, rows, 1}), b_scale = random.Floats({1, columns});
  const Tensor bias = random.Floats({columns}), addend = random.Floats({1, rows, columns});
  const Call call{"ScaledIntegerProduct",
                  {a, b, a_zero, b_zero, a_scale, b_scale, bias, addend},
                  {},
                  1,
                  {1, 3, 5, 6}};
  const std::vector<float> out = Floats(RunOne(call));
  const std::vector<int64_t> sums =
      Integers(RunOne({"MatMulInteger", {a, b, a_zero, b_zero}, {}, 1, {1, 3}}));
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = i / columns, column = i % columns;
    volatile float scale = Floats(a_scale)[row] * Floats(b_scale)[column];
    volatile float product = static_cast<float>(sums[i]) * scale;
    volatile float biased = product + Floats(bias)[column];
    volatile float expected = biased + Floats(addend)[i];
    ASSERT_EQ(out[i], expected) << i;
  }
}

TEST(ScaledIntegerProduct, RefusesWhatCannotBe) {
  const Tensor a = Bytes({2, 3}, std::vector<int64_t>(6, 1));
  const Tensor b = Bytes({3, 4}, std::vector<int64_t>(12, 1));
  const Tensor one = Tensor::Scalar(1.0f), none;
  const auto error = [&](std::vector<Tensor> inputs, std::vector<size_t> known = {1, 3, 5, 6}) {
    return ErrorOf({"ScaledIntegerProduct", std::move(inputs), {}, 1, std::move(known)});
  };
  EXPECT_EQ(error({a, b, none, none, one, one}), "");
  EXPECT_THAT(error({a, b, none, none, one, one}, {}), HasSubstr("known at load"));
  EXPECT_THAT(error({a, b, none, none, one, one, F32({3}, {1, 2, 3})}), HasSubstr("bias"));
  EXPECT_THAT(error({a, b, none, none, F32({3}, {1, 2, 3}), one}), HasSubstr("a_scale"));
  EXPECT_THAT(error({a, b, none, none, one}), HasSubstr("a_scale and b_scale"));
  EXPECT_THAT(error({a, b, none, none, one, one, none, F32({3, 1}, {1, 2, 3})}),
              HasSubstr("broadcast"));
  EXPECT_THAT(error({Bytes({3}, {1, 2, 3}), b, none, none, one, one}), HasSubstr("two axes"));
}

TEST(FakeQuantize, EqualsTheFormula) {
  Random random(2);
  const Tensor x = random.Floats({2, 3, 4}, -2, 2);
  const Tensor in_low = F32({3, 1}, {-1, -0.5f, 0}), in_high = F32({1}, {1});
  const Tensor out_low = F32({2, 1, 1}, {0, -10}), out_high = F32({}, {20});
  const int64_t levels = 5;
  const Tensor out =
      RunOne({"FakeQuantize", {x, in_low, in_high, out_low, out_high}, {{"levels", levels}}});
  for (size_t i = 0; i < 24; ++i) {
    const double v = Floats(x)[i], il = Floats(in_low)[i / 4 % 3], ih = 1,
                 ol = Floats(out_low)[i / 12], oh = 20;
    const double expected =
        v <= il ? ol
        : v > ih
            ? oh
            : std::nearbyint((v - il) / (ih - il) * (levels - 1)) / (levels - 1) * (oh - ol) + ol;
    EXPECT_NEAR(Floats(out)[i], expected, 1e-5);
  }
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    const auto to = [&](const Tensor& t) { return *Convert(t, dtype); };
    const Tensor other = RunOne({"FakeQuantize",
                                 {to(F32({2}, {0.2f, 0.9f})), to(F32({}, {0})), to(F32({}, {1})),
                                  to(F32({}, {0})), to(F32({}, {4}))},
                                 {{"levels", levels}}});
    EXPECT_EQ(other.dtype(), dtype);
    EXPECT_THAT(Floats(other), ElementsAre(1, 4));
  }
}

TEST(FakeQuantize, RefusesWhatCannotBe) {
  const Tensor x = F32({2}, {1, 2}), one = Tensor::Scalar(1.0f), many = F32({3}, {1, 2, 3});
  EXPECT_THAT(ErrorOf({"FakeQuantize", {x, one, one, one, one}}), HasSubstr("levels: 0"));
  EXPECT_THAT(ErrorOf({"FakeQuantize", {x, one, many, one, one}, {{"levels", int64_t{4}}}}),
              HasSubstr("input_high: shape [3] does not broadcast"));
  EXPECT_THAT(ErrorOf({"FakeQuantize", {one, x, one, one, one}, {{"levels", int64_t{4}}}}),
              HasSubstr("input_low"));
  EXPECT_THAT(ErrorOf({"FakeQuantize",
                       {x, one, one, one, one},
                       {{"levels", int64_t{4}}, {"auto_broadcast", std::string("pdpd")}}}),
              HasSubstr("pdpd"));
}

}  // namespace
}  // namespace beamwright::ops
