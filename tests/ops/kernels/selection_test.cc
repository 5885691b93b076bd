// TopK, ArgMax, ArgMin, CumSum, CumProd and Unique against the ONNX vectors and against plain
// sorting and summing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const DType kNumeric[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64,
                          DType::kI64, DType::kI32, DType::kI16,  DType::kI8,
                          DType::kU64, DType::kU32, DType::kU16,  DType::kU8};

Call TopK(Tensor data, int64_t k, int64_t axis, const char* mode = "max",
          const char* sort = "value") {
  return {"TopK",
          {std::move(data), Tensor::Scalar<int64_t>(k)},
          {{"axis", axis}, {"mode", std::string(mode)}, {"sort", std::string(sort)}},
          2};
}

// Slices along an axis of a tensor, as lists of element offsets.
std::vector<std::vector<size_t>> SlicesOf(const Shape& shape, int axis) {
  int64_t stride = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) stride *= shape[i];
  const int64_t count = shape[static_cast<size_t>(axis)];
  std::vector<std::vector<size_t>> slices;
  for (int64_t s = 0; s < NumElements(shape) / count; ++s) {
    std::vector<size_t> slice;
    for (int64_t i = 0; i < count; ++i) {
      slice.push_back(static_cast<size_t>(s / stride * count * stride + i * stride + s % stride));
    }
    slices.push_back(slice);
  }
  return slices;
}

TEST(TopK, EqualsAStableSortForEveryType) {
  Random random(1);
  for (int trial = 0; trial < 120; ++trial) {
    const Shape shape = {random.Int(1, 4), random.Int(1, 9), random.Int(1, 5)};
    const int axis = static_cast<int>(random.Int(0, 2));
    const int64_t k = random.Int(1, shape[static_cast<size_t>(axis)]);
    const bool smallest = trial % 2 == 1;
    const bool by_index = trial % 3 == 2;
    const Tensor data = random.Ints(shape, 0, 6, kNumeric[trial % 12]);  // many ties
    const std::vector<Tensor> outputs =
        *RunAll(TopK(data, k, axis - 3, smallest ? "min" : "max", by_index ? "index" : "value"));
    ASSERT_EQ(outputs[0].dtype(), data.dtype());
    ASSERT_EQ(outputs[1].dtype(), DType::kI32);
    const std::vector<float> values = Floats(data);
    const auto slices = SlicesOf(shape, axis), results = SlicesOf(outputs[0].shape(), axis);
    for (size_t s = 0; s < slices.size(); ++s) {
      std::vector<int64_t> order(slices[s].size());
      std::iota(order.begin(), order.end(), 0);
      const auto value = [&](int64_t i) { return values[slices[s][static_cast<size_t>(i)]]; };
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return smallest ? value(a) < value(b) : value(a) > value(b);
      });
      order.resize(static_cast<size_t>(k));
      if (by_index) std::sort(order.begin(), order.end());
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(Integers(outputs[1])[results[s][i]], order[i]);
        ASSERT_EQ(Floats(outputs[0])[results[s][i]], value(order[i]));
      }
    }
  }
}

TEST(TopK, NanStandsAboveEveryNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor data = F32({5}, {1, nan, 3, -nan, 2});
  EXPECT_THAT(Integers((*RunAll(TopK(data, 4, 0)))[1]), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(Integers((*RunAll(TopK(data, 4, 0, "min")))[1]), ElementsAre(0, 4, 2, 1));
  // Zeros of both signs are equal.
  EXPECT_THAT(Integers((*RunAll(TopK(F32({2}, {-0.0f, 0.0f}), 1, 0)))[1]), ElementsAre(0));
}

TEST(TopK, LargeIntegersKeepTheirBits) {
  const int64_t big = int64_t{1} << 60;
  const std::vector<Tensor> outputs = *RunAll(TopK(I64({3}, {big, big + 1, big - 1}), 2, 0));
  EXPECT_THAT(Integers(outputs[0]), ElementsAre(big + 1, big));
}

TEST(TopK, EmptyAndWrongK) {
  const Tensor data = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ((*RunAll(TopK(data, 0, 1)))[0].shape(), Shape({2, 0}));
  EXPECT_THAT(ErrorOf(TopK(data, 4, 1)), HasSubstr("k: 4 is more than the 3 elements of axis 1"));
  EXPECT_THAT(ErrorOf(TopK(data, -1, 1)), HasSubstr("not negative"));
  EXPECT_THAT(ErrorOf(TopK(data, 1, 2)), HasSubstr("axis 2"));
  EXPECT_THAT(ErrorOf(TopK(data, 1, 1, "most")), HasSubstr("mode: 'most'"));
  EXPECT_THAT(ErrorOf(TopK(*Convert(data, DType::kBool), 1, 1)), HasSubstr("boolean"));
  Call call = TopK(data, 1, 1);
  call.attributes.emplace_back("index_element_type", std::string("i64"));
  EXPECT_EQ((*RunAll(call))[1].dtype(), DType::kI64);
}

TEST(Selection, OnnxVectors) {
  if (!HaveOnnxVectors()) GTEST_SKIP();
  for (const char* name : {"test_top_k", "test_top_k_negative_axis", "test_top_k_smallest"}) {
    const OnnxVectors v = ReadOnnxVectors(name);
    const bool smallest = v.attributes.count("largest") > 0 && v.attributes.at("largest") == 0;
    Call call = TopK(v.input(0), 0, v.attributes.at("axis"), smallest ? "min" : "max");
    call.inputs[1] = v.input(1);
    call.attributes.emplace_back("index_element_type", std::string("i64"));
    const std::vector<Tensor> outputs = *RunAll(call);
    EXPECT_TRUE(SameBits(outputs[0], v.output(0))) << name;
    EXPECT_TRUE(SameBits(outputs[1], v.output(1))) << name;
  }
  for (const std::string op : {"max", "min"}) {
    for (const char* form :
         {"default_axis_example", "default_axis_random", "keepdims_example", "keepdims_random",
          "negative_axis_keepdims_random", "no_keepdims_example", "no_keepdims_random"}) {
      for (const char* last : {"", "_select_last_index"}) {
        const OnnxVectors v = ReadOnnxVectors("test_arg" + op + "_" + form + last);
        Call call{op == "max" ? "ArgMax" : "ArgMin", {v.input(0)}};
        for (const auto& [name, value] : v.attributes) call.attributes.emplace_back(name, value);
        EXPECT_TRUE(SameBits(RunOne(call), v.output(0))) << op << form << last;
      }
    }
  }
  for (const char* name : {"1d", "1d_exclusive", "1d_reverse", "1d_reverse_exclusive", "2d_axis_0",
                           "2d_axis_1", "2d_negative_axis"}) {
    const OnnxVectors v = ReadOnnxVectors(std::string("test_cumsum_") + name);
    Call call{"CumSum", {v.input(0), v.input(1)}};
    for (const auto& [attribute, value] : v.attributes) {
      call.attributes.emplace_back(attribute, value == 1);
    }
    EXPECT_TRUE(SameBits(RunOne(call), v.output(0))) << name;
  }
}

TEST(ArgExtreme, EveryTypeAndNan) {
  for (const DType dtype : kNumeric) {
    const Tensor data = *Convert(I64({2, 3}, {1, 5, 5, 2, 0, 0}), dtype);
    const std::vector<std::pair<std::string, AttributeValue>> rows = {{"axis", int64_t{1}}};
    EXPECT_THAT(Integers(RunOne({"ArgMax", {data}, rows})), ElementsAre(1, 0)) << Name(dtype);
    EXPECT_THAT(Integers(RunOne({"ArgMin", {data}, rows})), ElementsAre(0, 1)) << Name(dtype);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor data = F32({4}, {1, nan, 2, nan});
  EXPECT_THAT(Integers(RunOne({"ArgMax", {data}})), ElementsAre(1));
  EXPECT_THAT(Integers(RunOne({"ArgMax", {data}, {{"select_last_index", int64_t{1}}}})),
              ElementsAre(3));
  EXPECT_THAT(Integers(RunOne({"ArgMin", {data}})), ElementsAre(0));
  EXPECT_THAT(ErrorOf({"ArgMax", {F32({2, 0}, {})}, {{"axis", int64_t{1}}}}),
              HasSubstr("no elements along axis 1"));
  EXPECT_THAT(ErrorOf({"ArgMax", {data}, {{"keepdims", int64_t{2}}}}), HasSubstr("keepdims: 2"));
}

TEST(CumSum, EveryTypeAndForm) {
  for (const DType dtype : kNumeric) {
    const Tensor data = *Convert(I64({2, 3}, {1, 2, 3, 4, 5, 6}), dtype);
    const auto run = [&](int64_t axis, bool exclusive, bool reverse) {
      const Tensor out = RunOne({"CumSum",
                                 {data, Tensor::Scalar<int64_t>(axis)},
                                 {{"exclusive", exclusive}, {"reverse", reverse}}});
      EXPECT_EQ(out.dtype(), dtype);
      return Floats(out);
    };
    EXPECT_THAT(run(1, false, false), ElementsAre(1, 3, 6, 4, 9, 15));
    EXPECT_THAT(run(0, false, false), ElementsAre(1, 2, 3, 5, 7, 9));
    EXPECT_THAT(run(-1, true, false), ElementsAre(0, 1, 3, 0, 4, 9));
    EXPECT_THAT(run(1, false, true), ElementsAre(6, 5, 3, 15, 11, 6));
    EXPECT_THAT(run(1, true, true), ElementsAre(5, 3, 0, 11, 6, 0));
  }
}

TEST(CumSum, IntegersWrapAndHalvesAreSummedInF32) {
  const Tensor bytes = *Convert(I64({2}, {100, 100}), DType::kI8);
  EXPECT_THAT(Integers(RunOne({"CumSum", {bytes, Tensor::Scalar<int64_t>(0)}})),
              ElementsAre(100, -56));
  // In f16 itself 2048 + 1 stays 2048.
  const Tensor halves = *Convert(F32({3}, {2048, 1, 1}), DType::kF16);
  EXPECT_THAT(Floats(RunOne({"CumSum", {halves, Tensor::Scalar<int64_t>(0)}})),
              ElementsAre(2048, 2048, 2050));
}

TEST(CumSum, RefusesWrongAxes) {
  const Tensor data = F32({2}, {1, 2});
  EXPECT_THAT(ErrorOf({"CumSum", {data, Tensor::Scalar<int64_t>(1)}}), HasSubstr("axis 1"));
  EXPECT_THAT(ErrorOf({"CumSum", {data, I64({2}, {0, 0})}}), HasSubstr("must be one number"));
  EXPECT_THAT(ErrorOf({"CumSum", {data, F32({}, {0})}}), HasSubstr("element type f32"));
}

TEST(CumProd, WrapsIntegersAndExcludes) {
  const Tensor x = Tensor::Of<uint16_t>({3}, std::vector<uint16_t>{65535, 65535, 2});
  const Tensor out = RunOne({"CumProd", {x, Tensor::Scalar<int64_t>(0)}});
  EXPECT_THAT(out.span<uint16_t>(), ElementsAre(65535, 1, 2));
  EXPECT_THAT(Floats(RunOne({"CumProd",
                             {F32({3}, {2, 3, 5}), Tensor::Scalar<int64_t>(-1)},
                             {{"exclusive", true}, {"reverse", true}}})),
              ElementsAre(15, 5, 1));
  EXPECT_EQ(RunOne({"CumProd", {F32({2, 0}, {}), Tensor::Scalar<int64_t>(1)}}).shape(),
            Shape({2, 0}));
}

std::vector<Tensor> UniqueOf(std::vector<Tensor> inputs, bool sorted) {
  const auto all = RunAll({"Unique", std::move(inputs), {{"sorted", sorted}}, 4});
  EXPECT_TRUE(all.ok()) << all.status();
  return all.ok() ? *all : std::vector<Tensor>(4);
}

TEST(Unique, NansAreOneAndStandLast) {
  const Tensor x = F32({2, 3}, {NAN, 2, -0.0f, -NAN, 0, 2});
  const std::vector<Tensor> sorted = UniqueOf({x}, true);
  EXPECT_THAT(Floats(sorted[0]), ElementsAre(0, 2, ::testing::IsNan()));
  EXPECT_THAT(Integers(sorted[1]), ElementsAre(2, 1, 0));
  EXPECT_THAT(Integers(sorted[2]), ElementsAre(2, 1, 0, 2, 0, 1));
  EXPECT_THAT(Integers(sorted[3]), ElementsAre(2, 2, 2));
  const std::vector<Tensor> as_they_come = UniqueOf({x}, false);
  EXPECT_THAT(Integers(as_they_come[1]), ElementsAre(0, 1, 2));
  EXPECT_THAT(Integers(as_they_come[2]), ElementsAre(0, 1, 2, 0, 2, 1));
}

TEST(Unique, SlicesAcrossAnAxis) {
  const Tensor x = I64({2, 4}, {1, 1, 0, 1, 3, 2, 5, 3});
  const std::vector<Tensor> columns = UniqueOf({x, Tensor::Scalar<int64_t>(-1)}, true);
  EXPECT_EQ(columns[0].shape(), Shape({2, 3}));
  EXPECT_THAT(Integers(columns[0]), ElementsAre(0, 1, 1, 5, 2, 3));
  EXPECT_THAT(Integers(columns[1]), ElementsAre(2, 1, 0));
  EXPECT_THAT(Integers(columns[3]), ElementsAre(1, 1, 2));
  // Slices of nothing are all alike.
  const std::vector<Tensor> none = UniqueOf({F32({3, 0}, {}), Tensor::Scalar<int64_t>(0)}, true);
  EXPECT_EQ(none[0].shape(), Shape({1, 0}));
  EXPECT_THAT(Integers(none[3]), ElementsAre(3));
  EXPECT_EQ(UniqueOf({F32({0}, {})}, true)[0].shape(), Shape({0}));
}

TEST(Unique, RefusesOtherAxesAndTypes) {
  EXPECT_THAT(ErrorOf({"Unique", {F32({2}, {1, 2}), Tensor::Scalar<int64_t>(1)}, {}, 4}),
              HasSubstr("axis"));
  EXPECT_THAT(
      ErrorOf({"Unique", {F32({2}, {1, 2})}, {{"index_element_type", std::string("f32")}}, 4}),
      HasSubstr("must be i32 or i64"));
}

}  // namespace
}  // namespace beamwright::ops
