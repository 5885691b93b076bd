// Pooling against the ONNX vectors and against loops over all positions of a window.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using PoolingInts = std::vector<int64_t>;

// The attributes of an ONNX node as the operator's.
std::vector<std::pair<std::string, AttributeValue>> Translate(const OnnxVectors& vectors) {
  std::vector<std::pair<std::string, AttributeValue>> result = {
      {"kernel", std::get<PoolingInts>(vectors.values.at("kernel_shape"))}};
  for (const char* name : {"strides", "dilations"}) {
    if (vectors.values.count(name) > 0)
      result.emplace_back(name, std::get<PoolingInts>(vectors.values.at(name)));
  }
  if (vectors.values.count("pads") > 0) {
    const PoolingInts& pads = std::get<PoolingInts>(vectors.values.at("pads"));
    const auto half = pads.begin() + static_cast<int64_t>(pads.size() / 2);
    result.emplace_back("pads_begin", PoolingInts(pads.begin(), half));
    result.emplace_back("pads_end", PoolingInts(half, pads.end()));
  }
  if (vectors.values.count("auto_pad") > 0) {
    result.emplace_back("auto_pad", std::get<std::string>(vectors.values.at("auto_pad")));
  }
  if (vectors.attributes.count("ceil_mode") > 0 && vectors.attributes.at("ceil_mode") == 1) {
    result.emplace_back("rounding_type", std::string("ceil"));
  }
  return result;
}

TEST(Pooling, OnnxVectors) {
  if (!HaveOnnxVectors()) GTEST_SKIP();
  for (const char* name : {"maxpool_1d_default",
                           "maxpool_2d_ceil",
                           "maxpool_2d_default",
                           "maxpool_2d_dilations",
                           "maxpool_2d_pads",
                           "maxpool_2d_precomputed_pads",
                           "maxpool_2d_precomputed_same_upper",
                           "maxpool_2d_precomputed_strides",
                           "maxpool_2d_same_lower",
                           "maxpool_2d_same_upper",
                           "maxpool_2d_strides",
                           "maxpool_2d_uint8",
                           "maxpool_3d_default",
                           "maxpool_with_argmax_2d_precomputed_pads",
                           "averagepool_1d_default",
                           "averagepool_2d_ceil",
                           "averagepool_2d_default",
                           "averagepool_2d_pads",
                           "averagepool_2d_pads_count_include_pad",
                           "averagepool_2d_precomputed_pads",
                           "averagepool_2d_precomputed_pads_count_include_pad",
                           "averagepool_2d_precomputed_same_upper",
                           "averagepool_2d_precomputed_strides",
                           "averagepool_2d_same_lower",
                           "averagepool_2d_same_upper",
                           "averagepool_2d_strides",
                           "averagepool_3d_default"}) {
    SCOPED_TRACE(name);
    const OnnxVectors vectors = ReadOnnxVectors(std::string("test_") + name);
    const bool average = std::string(name).find("average") == 0;
    Call call{average ? "AvgPool" : "MaxPool", {vectors.input(0)}, Translate(vectors)};
    if (average) {
      const bool counts = vectors.attributes.count("count_include_pad") > 0;
      call.attributes.emplace_back("exclude-pad", !counts);
    }
    call.num_outputs = static_cast<int>(vectors.output_names.size());
    const std::vector<Tensor> outputs = *RunAll(call);
    ASSERT_EQ(outputs[0].shape(), vectors.output(0).shape());
    ASSERT_EQ(outputs[0].dtype(), vectors.output(0).dtype());
    const std::vector<float> got = Floats(outputs[0]);
    const std::vector<float> expected = Floats(vectors.output(0));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-5);
    }
    if (outputs.size() == 2) {
      EXPECT_TRUE(SameBits(outputs[1], vectors.output(1)));
    }
  }
}

struct PoolingAxis {
  int64_t in, kernel, stride, dilation, begin, end, out;
};

// Both kinds over one plane by definition: element by element of the window, padding included.
struct Expected {
  double max = -std::numeric_limits<double>::infinity();
  int64_t index = 0;
  double sum = 0;
  int64_t inside = 0, padded = 0;
};
Expected Naive(const std::vector<PoolingAxis>& axes, const std::vector<float>& plane, int64_t out) {
  Expected result;
  int64_t positions = 1;
  for (const PoolingAxis& axis : axes) positions *= axis.kernel;
  for (int64_t k = 0; k < positions; ++k) {
    int64_t rest_k = k, rest_o = out, at = 0, step = 1;
    bool inside = true, padded = true;
    for (size_t i = axes.size(); i-- > 0;) {
      const PoolingAxis& axis = axes[i];
      const int64_t x =
          rest_o % axis.out * axis.stride - axis.begin + rest_k % axis.kernel * axis.dilation;
      inside = inside && x >= 0 && x < axis.in;
      padded = padded && x < axis.in + axis.end;
      at += x * step;
      step *= axis.in;
      rest_o /= axis.out;
      rest_k /= axis.kernel;
    }
    result.padded += padded;
    if (!inside) continue;
    const double value = plane[static_cast<size_t>(at)];
    if (value > result.max) {
      result.max = value;
      result.index = at;
    }
    result.sum += value;
    ++result.inside;
  }
  return result;
}

TEST(Pooling, EqualsTheDefinition) {
  Random random(1);
  for (int trial = 0; trial < 120; ++trial) {
    const bool ceil = trial % 2 == 1;
    std::vector<PoolingAxis> axes;
    PoolingInts kernel, strides, dilations, begin, end;
    Shape shape = {2, 3};
    for (int i = 0; i <= trial % 3; ++i) {
      PoolingAxis a{
          random.Int(1, 8), random.Int(1, 3), random.Int(1, 3), random.Int(1, 2), 0, 0, 0};
      const int64_t window = (a.kernel - 1) * a.dilation + 1;
      a.begin = random.Int(0, window - 1);
      a.end = random.Int(0, window - 1);
      a.in = std::max(a.in, window);
      const int64_t room = a.in + a.begin + a.end - window;
      a.out = (ceil ? (room + a.stride - 1) / a.stride : room / a.stride) + 1;
      axes.push_back(a);
      shape.push_back(a.in);
      kernel.push_back(a.kernel);
      strides.push_back(a.stride);
      dilations.push_back(a.dilation);
      begin.push_back(a.begin);
      end.push_back(a.end);
    }
    const std::vector<std::pair<std::string, AttributeValue>> attributes = {
        {"kernel", kernel},       {"strides", strides},
        {"dilations", dilations}, {"pads_begin", begin},
        {"pads_end", end},        {"rounding_type", std::string(ceil ? "ceil" : "floor")}};
    const Tensor data = random.Floats(shape);
    Call max{"MaxPool", {data}, attributes, 2};
    max.attributes.emplace_back("index_element_type", std::string("i32"));
    max.attributes.emplace_back("axis", int64_t{2});
    const std::vector<Tensor> maxima = *RunAll(max);
    Call average{"AvgPool", {data}, attributes};
    average.attributes.emplace_back("exclude-pad", true);
    const std::vector<float> excluded = Floats(RunOne(average));
    average.attributes.back().second = false;
    const std::vector<float> included = Floats(RunOne(average));
    const int64_t size_in = data.num_elements() / 6;
    const int64_t size_out = maxima[0].num_elements() / 6;
    const std::vector<float> all = Floats(data), largest = Floats(maxima[0]);
    const std::vector<int64_t> indices = Integers(maxima[1]);
    for (int64_t i = 0; i < maxima[0].num_elements(); ++i) {
      const size_t at = static_cast<size_t>(i);
      const auto first = all.begin() + i / size_out * size_in;
      const Expected e = Naive(axes, {first, first + size_in}, i % size_out);
      if (e.inside > 0) {
        ASSERT_EQ(largest[at], static_cast<float>(e.max));
        ASSERT_EQ(indices[at], e.index);
        ASSERT_NEAR(excluded[at], e.sum / static_cast<double>(e.inside), 1e-6);
      } else {
        ASSERT_EQ(excluded[at], 0);
      }
      if (e.padded > 0) {
        ASSERT_NEAR(included[at], e.sum / static_cast<double>(e.padded), 1e-6);
      }
    }
  }
}

TEST(Pooling, CeilTorchBeginsInsideTheData) {
  // 5 elements, one of padding at the end, windows of 1 every 3: positions 0, 3 and, rounding
  // up, 6.
  Call call{"MaxPool",
            {F32({1, 1, 5}, {1, 2, 3, 4, 5})},
            {{"kernel", PoolingInts{1}},
             {"strides", PoolingInts{3}},
             {"pads_end", PoolingInts{1}},
             {"rounding_type", std::string("ceil")}}};
  EXPECT_THAT(Floats(RunOne(call)), ElementsAre(1, 4, std::numeric_limits<float>::lowest()));
  call.attributes.back().second = std::string("ceil_torch");
  EXPECT_THAT(Floats(RunOne(call)), ElementsAre(1, 4));
}

// Windows wider than those that are computed by rows.
TEST(Pooling, WideWindows) {
  Random random(6);
  const Tensor data = random.Floats({2, 1, 3, 200});
  const std::vector<std::pair<std::string, AttributeValue>> windows = {
      {"kernel", PoolingInts{1, 70}},
      {"strides", PoolingInts{1, 9}},
      {"pads_begin", PoolingInts{0, 20}},
      {"exclude-pad", true}};
  const std::vector<float> in = Floats(data);
  const std::vector<float> sums = Floats(RunOne({"AvgPool", {data}, windows}));
  const std::vector<float> most =
      Floats(RunOne({"MaxPool", {data}, {windows.begin(), windows.end() - 1}}));
  ASSERT_EQ(sums.size(), 2u * 3u * 17u);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t end = i % 17 * 9 + 50, begin = std::max<size_t>(i % 17 * 9, 20) - 20;
    double sum = 0;
    float largest = -2;
    for (size_t x = begin; x < end; ++x) {
      sum += double{in[i / 17 * 200 + x]};
      largest = std::max(largest, in[i / 17 * 200 + x]);
    }
    EXPECT_NEAR(sums[i], sum / static_cast<double>(end - begin), 1e-6);
    EXPECT_EQ(most[i], largest);
  }
}

TEST(MaxPool, TypesNanAndInfinities) {
  const std::vector<std::pair<std::string, AttributeValue>> two = {{"kernel", PoolingInts{2}},
                                                                   {"strides", PoolingInts{2}}};
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kI16, DType::kI8,
        DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    const Tensor data = *Convert(I64({1, 1, 4}, {1, 3, 8, 2}), dtype);
    const Tensor out = RunOne({"MaxPool", {data}, two});
    EXPECT_EQ(out.dtype(), dtype);
    EXPECT_THAT(Floats(out), ElementsAre(3, 8));
  }
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Floats(RunOne({"MaxPool", {F32({1, 1, 6}, {nan, 1, -inf, -inf, nan, nan})}, two})),
              ElementsAre(1, -inf, std::numeric_limits<float>::lowest()));
}

// Where no indices are asked for, rows of outputs are computed together.
TEST(MaxPool, HasTheBitsThatItHasWithIndices) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, nan, -inf, inf, 0.5f};
  Random random(9);
  for (int trial = 0; trial < 200; ++trial) {
    const bool of_pictures = trial % 4 == 0;  // two whole rows, one or two columns
    const PoolingInts kernel = of_pictures ? PoolingInts{2, random.Int(1, 2)}
                                           : PoolingInts{random.Int(1, 3), random.Int(1, 3)};
    const PoolingInts strides = of_pictures ? PoolingInts{random.Int(1, 3), kernel[1]}
                                            : PoolingInts{random.Int(1, 3), random.Int(1, 3)};
    const PoolingInts begin =
        of_pictures ? PoolingInts{0, 0}
                    : PoolingInts{random.Int(0, kernel[0] - 1), random.Int(0, kernel[1] - 1)};
    Tensor data(DType::kF32, {2, 2, random.Int(3, 7), random.Int(3, 80)});
    for (float& x : absl::MakeSpan(data.mutable_data<float>(), data.num_elements())) {
      x = values[random.Int(0, trial % 2 == 0 ? 7 : 3)];
    }
    Call call{"MaxPool", {data}, {{"kernel", kernel}, {"strides", strides}, {"pads_begin", begin}}};
    const Tensor alone = RunOne(call);
    call.num_outputs = 2;
    EXPECT_TRUE(SameBits(alone, (*RunAll(call))[0])) << trial;
  }
}

TEST(Pooling, IndicesCountFromTheAxis) {
  Call call{"MaxPool", {F32({2, 1, 2}, {1, 2, 4, 3})}, {{"kernel", PoolingInts{2}}}, 2};
  EXPECT_THAT(Integers((*RunAll(call))[1]), ElementsAre(1, 2));
  call.attributes.emplace_back("axis", int64_t{1});
  EXPECT_THAT(Integers((*RunAll(call))[1]), ElementsAre(1, 0));
}

TEST(Pooling, RefusesWhatCannotBe) {
  const auto error = [](std::vector<std::pair<std::string, AttributeValue>> attributes,
                        const char* op = "MaxPool") {
    return ErrorOf({op, {F32({1, 1, 4}, {1, 2, 3, 4})}, std::move(attributes)});
  };
  EXPECT_THAT(error({}), HasSubstr("kernel: is required"));
  EXPECT_THAT(error({{"kernel", PoolingInts{5}}}), HasSubstr("window of 5 does not fit into 4"));
  EXPECT_THAT(error({{"kernel", PoolingInts{2, 2}}}), HasSubstr("must have rank 4"));
  EXPECT_THAT(error({{"kernel", PoolingInts{0}}}), HasSubstr("kernel[0]: 0"));
  EXPECT_THAT(error({{"kernel", PoolingInts{2}}, {"rounding_type", std::string("up")}}),
              HasSubstr("rounding_type"));
  EXPECT_THAT(error({{"kernel", PoolingInts{2}}, {"index_element_type", std::string("u8")}}),
              HasSubstr("index_element_type: u8"));
  EXPECT_THAT(ErrorOf({"AvgPool", {I64({1, 1, 1}, {1})}, {{"kernel", PoolingInts{1}}}}),
              HasSubstr("element type i64"));
  EXPECT_THAT(
      ErrorOf(
          {"MaxPool", {*Convert(I64({1, 1, 1}, {1}), DType::kBool)}, {{"kernel", PoolingInts{1}}}}),
      HasSubstr("boolean"));
}

}  // namespace
}  // namespace beamwright::ops
