// Convolutions against nested loops, in double and as chains of fused multiply-adds, whose bits
// they have with every instruction set and number of threads, in a batch and alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/base/vector_isa.h"
#include "tests/ops/kernels/onnx_vectors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using ConvolutionInts = std::vector<int64_t>;

struct ConvolutionProblem {
  int64_t items = 1, groups = 1, in = 1, out = 1;  // channels of a group
  ConvolutionInts extents, kernel, strides, dilations, begin, end;
  bool constant = true;

  Call ToCall(const Tensor& data, const Tensor& filter) const {
    Call call{
        groups > 1 ? "GroupConvolution" : "Convolution",
        {data, filter},
        {{"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}}};
    if (constant) call.constants = {1};
    return call;
  }
  Shape DataShape() const {
    Shape shape = {items, groups * in};
    shape.insert(shape.end(), extents.begin(), extents.end());
    return shape;
  }
  Shape FilterShape() const {
    Shape shape = {out, in};
    if (groups > 1) shape.insert(shape.begin(), groups);
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    return shape;
  }
};

ConvolutionProblem RandomProblem(Random& random, size_t rank) {
  ConvolutionProblem p;
  p.items = random.Int(1, 3);
  p.groups = random.Int(0, 2) == 0 ? random.Int(2, 4) : 1;
  p.in = random.Int(1, 5);
  p.out = random.Int(1, 20);
  for (size_t i = 0; i < rank; ++i) {
    p.kernel.push_back(random.Int(1, 3));
    p.dilations.push_back(random.Int(1, 2));
    p.strides.push_back(random.Int(1, 3));
    p.begin.push_back(random.Int(0, 3));
    p.end.push_back(random.Int(0, 2));
    p.extents.push_back(random.Int((p.kernel[i] - 1) * p.dilations[i] + 1, 9));
  }
  return p;
}

// out[n, oc, o] = sum over ic, k of in[n, ic, o * stride - begin + k * dilation] * filter[oc, ic,
// k]. Terms are added by `add` in the order of the filter; those of the padding are left out.
template <typename Sum = double, typename T>
std::vector<Sum> Naive(
    const ConvolutionProblem& p, const std::vector<T>& in, const std::vector<T>& filter,
    Sum (*add)(Sum, Sum, Sum) = [](Sum a, Sum b, Sum sum) { return sum + a * b; }) {
  const size_t rank = p.extents.size();
  ConvolutionInts outs;
  for (size_t i = 0; i < rank; ++i) {
    outs.push_back((p.extents[i] + p.begin[i] + p.end[i] - (p.kernel[i] - 1) * p.dilations[i] - 1) /
                       p.strides[i] +
                   1);
  }
  const auto product = [](const ConvolutionInts& list) {
    int64_t result = 1;
    for (const int64_t x : list) result *= x;
    return result;
  };
  std::vector<Sum> result;
  for (int64_t n = 0; n < p.items; ++n) {
    for (int64_t oc = 0; oc < p.groups * p.out; ++oc) {
      for (int64_t o = 0; o < product(outs); ++o) {
        Sum sum = 0;
        for (int64_t ic = 0; ic < p.in; ++ic) {
          for (int64_t k = 0; k < product(p.kernel); ++k) {
            int64_t at = 0, rest_o = o, rest_k = k, step = 1;
            bool inside = true;
            for (size_t i = rank; i-- > 0;) {
              const int64_t x = rest_o % outs[i] * p.strides[i] - p.begin[i] +
                                rest_k % p.kernel[i] * p.dilations[i];
              inside = inside && x >= 0 && x < p.extents[i];
              at += x * step;
              step *= p.extents[i];
              rest_o /= outs[i];
              rest_k /= p.kernel[i];
            }
            if (!inside) continue;
            const int64_t channel = oc / p.out * p.in + ic;
            sum = add(static_cast<Sum>(in[static_cast<size_t>(
                          (n * p.groups * p.in + channel) * product(p.extents) + at)]),
                      static_cast<Sum>(
                          filter[static_cast<size_t>((oc * p.in + ic) * product(p.kernel) + k)]),
                      sum);
          }
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

TEST(Convolution, EqualsNestedLoops) {
  Random random(1);
  for (int trial = 0; trial < 90; ++trial) {
    ConvolutionProblem p = RandomProblem(random, static_cast<size_t>(trial % 3 + 1));
    p.constant = trial % 2 == 0;
    const Tensor data = random.Floats(p.DataShape()), filter = random.Floats(p.FilterShape());
    const Tensor out = RunOne(p.ToCall(data, filter));
    const std::vector<double> expected = Naive(p, Floats(data), Floats(filter));
    ASSERT_EQ(static_cast<size_t>(out.num_elements()), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(Floats(out)[i], expected[i], 1e-5) << "trial " << trial;
    }
  }
}

Tensor RandomIntegers(Random& random, const Shape& shape, int64_t least, int64_t most) {
  Tensor tensor(DType::kI32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<int32_t>()[i] = static_cast<int32_t>(random.Int(least, most));
  }
  return tensor;
}

// Quantised values in a few channels and in hundreds, whose sums f32 does not hold at once; values
// too large for it at all, whose sums wrap; and one such value alone among small ones.
TEST(Convolution, IntegersAreExactWhateverTheirSize) {
  Random random(3);
  for (int trial = 0; trial < 60; ++trial) {
    ConvolutionProblem p = RandomProblem(random, static_cast<size_t>(trial % 2 + 1));
    p.constant = trial % 5 != 4;
    const bool wide = trial % 4 == 1;
    if (wide) {
      p.groups = trial % 8 == 1 ? 1 : 2;
      p.in = random.Int(200, 700);
      p.out = random.Int(1, 3);
      p.items = 1;
    }
    const bool large = trial % 4 == 2;
    // Of one sign, so that sums grow.
    const int64_t most = large ? 1 << 22 : 255;
    Tensor data = RandomIntegers(random, p.DataShape(), wide ? 200 : -most, most);
    const int64_t most_weight = large ? 1 << 9 : 127;
    const Tensor filter =
        RandomIntegers(random, p.FilterShape(), wide ? 100 : -most_weight, most_weight);
    if (trial % 4 == 3) {
      data.mutable_data<int32_t>()[data.num_elements() - 1] = std::numeric_limits<int32_t>::min();
    }
    const Tensor out = RunOne(p.ToCall(data, filter));
    const auto elements = [](const Tensor& tensor) {
      return std::vector<int32_t>(tensor.data<int32_t>(),
                                  tensor.data<int32_t>() + tensor.num_elements());
    };
    const std::vector<double> expected = Naive(p, elements(data), elements(filter));
    const std::vector<int32_t> got = elements(out);
    ASSERT_EQ(static_cast<size_t>(out.num_elements()), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(got[i], static_cast<int32_t>(static_cast<int64_t>(expected[i])))
          << "trial " << trial;
    }
  }
}

// Each way that a convolution is computed (ops/kernels/float_convolution.h), with extents that
// leave rests of each kind: tiles, strips, blocks of rows, channels, positions, items.
std::vector<std::pair<const char*, ConvolutionProblem>> EachWay() {
  //                                  items, groups, in, out, extents, kernel, strides, dilations,
  //                                  pads at the begin and the end
  return {
      {"window in tiles", {2, 1, 64, 21, {23, 60}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"strides and dilations", {2, 1, 5, 19, {31, 45}, {3, 4}, {2, 3}, {2, 2}, {2, 3}, {1, 4}}},
      {"narrow rows", {3, 1, 6, 40, {50, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"rows of one", {1, 1, 4, 33, {90, 3}, {2, 3}, {1, 1}, {1, 1}, {1, 0}, {0, 0}}},
      {"sound in tiles", {1, 1, 40, 30, {2100}, {5}, {1}, {1}, {2}, {2}}},
      {"wide strides", {2, 1, 1, 30, {3000}, {51}, {10}, {1}, {0}, {0}}},
      {"stride beyond the window", {1, 1, 3, 8, {40, 41}, {1, 2}, {3, 4}, {1, 1}, {0, 1}, {0, 0}}},
      {"volume", {2, 1, 3, 9, {7, 9, 11}, {2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 1, 1}, {0, 1, 1}}},
      {"in place", {2, 1, 70, 37, {9, 11}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}},
      {"in place, groups", {2, 3, 20, 8, {97}, {1}, {1}, {1}, {0}, {0}}},
      {"deep", {1, 1, 300, 50, {6, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"groups", {2, 4, 6, 5, {14, 20}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"depthwise", {2, 33, 1, 1, {12, 80}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}}},
      {"depthwise, strides", {2, 9, 1, 2, {13, 75}, {3, 3}, {2, 2}, {1, 2}, {1, 1}, {1, 1}}},
      {"depthwise sound", {2, 40, 1, 1, {7}, {31}, {1}, {1}, {15}, {15}}},
      {"depthwise, a chunk and its past", {3, 32, 1, 1, {11}, {8}, {1}, {1}, {0}, {0}}},
      {"depthwise, 33 positions", {1, 16, 1, 1, {33}, {5}, {1}, {1}, {2}, {2}}},
      {"depthwise, 23 of 40 positions", {2, 20, 1, 1, {40}, {9}, {2}, {2}, {11}, {3}}},
      {"depthwise, mostly padding", {1, 9, 1, 1, {1}, {3}, {1}, {1}, {6}, {0}}},
      {"rows, few positions", {3, 1, 40, 130, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"rows, many items", {70, 1, 16, 65, {4, 2}, {2, 1}, {2, 1}, {1, 1}, {0, 0}, {0, 0}}},
      {"rows, data as it is", {5, 1, 30, 60, {2, 3}, {2, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}},
      {"rows of one position", {5, 1, 48, 33, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}},
  };
}

TEST(Convolution, AnElementIsOneChainOfFusedMultiplyAddsInEachWay) {
  Random random(2);
  for (auto& [name, p] : EachWay()) {
    SCOPED_TRACE(name);
    const Tensor data = random.Floats(p.DataShape()), filter = random.Floats(p.FilterShape());
    const std::vector<float> expected = Naive<float>(p, Floats(data), Floats(filter), &std::fma);
    for (const VectorIsa isa : {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512}) {
      const ScopedVectorIsa scope(isa);
      for (const bool constant : {true, false}) {
        p.constant = constant;
        const Tensor out = RunOne(p.ToCall(data, filter));
        ASSERT_TRUE(SameBits(out, F32(out.shape(), expected)));
      }
    }
  }
}

// Enough work in each of them that threads share it.
TEST(Convolution, AnItemIsTheSameAloneAndInABatchForAnyNumberOfThreads) {
  Random random(2);
  for (ConvolutionProblem p : {
           ConvolutionProblem{2, 1, 64, 40, {30, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
           ConvolutionProblem{2, 1, 512, 100, {8, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
           ConvolutionProblem{2, 1, 16, 48, {3000}, {9}, {2}, {1}, {4}, {4}},
           ConvolutionProblem{2, 60, 1, 1, {40, 80}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
           ConvolutionProblem{40, 1, 64, 128, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
           ConvolutionProblem{16, 200, 1, 1, {16}, {31}, {1}, {1}, {15}, {15}},
       }) {
    const Tensor data = random.Floats(p.DataShape()), filter = random.Floats(p.FilterShape());
    Call call = p.ToCall(data, filter);
    const Tensor all = RunOne(call);
    for (call.num_threads = 2; call.num_threads <= 8; ++call.num_threads) {
      EXPECT_TRUE(SameBits(all, RunOne(call))) << call.num_threads;
    }
    for (int64_t item = 0; item < p.items; ++item) {
      call.inputs[0] = data.Rows(item, item + 1);
      EXPECT_TRUE(SameBits(RunOne(call), all.Rows(item, item + 1))) << item;
    }
  }
}

// One kernel meets one shape after the other, and each again.
TEST(Convolution, ShapesMayChangeFromCallToCall) {
  Random random(3);
  const Tensor filter = random.Floats({8, 8, 3, 3});
  ConvolutionProblem p{1, 1, 8, 8, {0, 0}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  p.extents = {5, 5};
  Call call = p.ToCall(random.Floats(p.DataShape()), filter);
  Node node = MakeNode(call);
  const std::vector<InputInfo> infos = {{DType::kF32, PartialShape({-1, 8, -1, -1})},
                                        {DType::kF32, PartialShape(filter.shape()), &filter}};
  const Operator* op = TestOperators().Find("Convolution");
  ASSERT_TRUE(op->infer(node, infos, node.outputs).ok());
  EXPECT_EQ(node.outputs[0].shape, PartialShape({-1, 8, -1, -1}));
  const std::unique_ptr<Kernel> kernel = *op->make({node, infos, TestOperators()});
  for (int trial = 0; trial < 40; ++trial) {
    p.extents = {5 + trial % 11, 7};
    const Tensor data = random.Floats(p.DataShape());
    std::vector<Tensor> outputs(1);
    const Tensor* inputs[] = {&data, &filter};
    ASSERT_TRUE(kernel->Run({}, inputs, absl::MakeSpan(outputs)).ok());
    const std::vector<double> expected = Naive(p, Floats(data), Floats(filter));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(Floats(outputs[0])[i], expected[i], 1e-4);
    }
  }
}

TEST(Convolution, SamePaddingPutsTheOddElementWhereItIsAskedFor) {
  const Tensor data = F32({1, 1, 4}, {1, 2, 3, 4});
  const Tensor filter = F32({1, 1, 2}, {1, 10});
  const auto run = [&](const char* pad) {
    return Floats(RunOne({"Convolution", {data, filter}, {{"auto_pad", std::string(pad)}}}));
  };
  EXPECT_EQ(run("same_upper"), std::vector<float>({21, 32, 43, 4}));
  EXPECT_EQ(run("same_lower"), std::vector<float>({10, 21, 32, 43}));
  EXPECT_EQ(run("valid"), std::vector<float>({21, 32, 43}));
}

// 16-bit results are the f32 result rounded once; f64 is computed as such.
TEST(Convolution, OtherFloatTypes) {
  Random random(4);
  ConvolutionProblem p = RandomProblem(random, 2);
  const Tensor data = random.Floats(p.DataShape()), filter = random.Floats(p.FilterShape());
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor narrow_data = *Convert(data, dtype), narrow_filter = *Convert(filter, dtype);
    const Tensor wide =
        RunOne(p.ToCall(*Convert(narrow_data, DType::kF32), *Convert(narrow_filter, DType::kF32)));
    EXPECT_TRUE(SameBits(RunOne(p.ToCall(narrow_data, narrow_filter)), *Convert(wide, dtype)));
  }
  const Tensor out = RunOne(p.ToCall(*Convert(data, DType::kF64), *Convert(filter, DType::kF64)));
  ASSERT_EQ(out.dtype(), DType::kF64);
  const std::vector<double> expected = Naive(p, Floats(data), Floats(filter));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(out.span<double>()[i], expected[i], 1e-13);
  }
}

TEST(Convolution, OnnxVectors) {
  if (!HaveOnnxVectors()) GTEST_SKIP();
  for (const char* name :
       {"test_basic_conv_with_padding", "test_basic_conv_without_padding",
        "test_conv_with_strides_and_asymmetric_padding", "test_conv_with_strides_no_padding",
        "test_conv_with_strides_padding", "test_convtranspose", "test_convtranspose_1d",
        "test_convtranspose_3d", "test_convtranspose_dilations", "test_convtranspose_pads"}) {
    const OnnxVectors vectors = ReadOnnxVectors(name);
    const bool transposed = std::string(name).find("transpose") != std::string::npos;
    Call call{transposed ? "ConvolutionBackpropData" : "Convolution",
              {vectors.input(0), vectors.input(1)}};
    for (const char* list : {"strides", "dilations", "output_padding"}) {
      if (vectors.values.count(list) > 0)
        call.attributes.emplace_back(list, std::get<ConvolutionInts>(vectors.values.at(list)));
    }
    if (vectors.values.count("pads") > 0) {
      const ConvolutionInts& pads = std::get<ConvolutionInts>(vectors.values.at("pads"));
      const auto half = pads.begin() + static_cast<int64_t>(pads.size() / 2);
      call.attributes.emplace_back("pads_begin", ConvolutionInts(pads.begin(), half));
      call.attributes.emplace_back("pads_end", ConvolutionInts(half, pads.end()));
    }
    const Tensor out = RunOne(call);
    ASSERT_EQ(out.shape(), vectors.output(0).shape()) << name;
    for (size_t i = 0; i < Floats(out).size(); ++i) {
      EXPECT_NEAR(Floats(out)[i], Floats(vectors.output(0))[i], 1e-4) << name;
    }
  }
}

// <C(x), y> = <x, C^T(y)>: what makes it the transpose.
TEST(ConvolutionBackpropData, IsTheTransposeOfConvolution) {
  Random random(5);
  for (int trial = 0; trial < 30; ++trial) {
    ConvolutionProblem p = RandomProblem(random, static_cast<size_t>(trial % 3 + 1));
    const Tensor x = random.Floats(p.DataShape()), filter = random.Floats(p.FilterShape());
    const Tensor forward = RunOne(p.ToCall(x, filter));
    const Tensor y = random.Floats(forward.shape());
    // What the strides leave over at the end is the output padding.
    ConvolutionInts over;
    for (size_t i = 0; i < p.extents.size(); ++i) {
      over.push_back(
          (p.extents[i] + p.begin[i] + p.end[i] - (p.kernel[i] - 1) * p.dilations[i] - 1) %
          p.strides[i]);
    }
    Call call = p.ToCall(y, filter);
    call.op = p.groups > 1 ? "GroupConvolutionBackpropData" : "ConvolutionBackpropData";
    call.attributes.emplace_back("output_padding", over);
    const Tensor back = RunOne(call);
    ASSERT_EQ(back.shape(), x.shape());
    double left = 0, right = 0;
    for (size_t i = 0; i < Floats(y).size(); ++i) left += double{Floats(forward)[i]} * Floats(y)[i];
    for (size_t i = 0; i < Floats(x).size(); ++i) right += double{Floats(back)[i]} * Floats(x)[i];
    EXPECT_NEAR(left, right, 1e-4 * (1 + std::abs(left)));
  }
}

TEST(Convolution, RefusesWhatCannotBe) {
  const auto error = [](Shape data, Shape filter,
                        std::vector<std::pair<std::string, AttributeValue>> attributes = {},
                        const char* op = "Convolution") {
    return ErrorOf({op,
                    {Tensor::Zeros(DType::kF32, std::move(data)),
                     Tensor::Zeros(DType::kF32, std::move(filter))},
                    std::move(attributes)});
  };
  EXPECT_THAT(error({1, 3, 5}, {2, 4, 3}), HasSubstr("has 3 channels"));
  EXPECT_THAT(error({1, 5, 5}, {2, 2, 2, 3}, {}, "GroupConvolution"), HasSubstr("2 times 2"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 6}), HasSubstr("window of 6 does not fit into 5"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 0}), HasSubstr("window is empty"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 3, 3}), HasSubstr("does not fit data"));
  for (const Shape& data : {Shape{}, Shape{3}, Shape{1, 3}}) {
    EXPECT_THAT(error(data, {2, 3, 3}), HasSubstr("must have rank 3 or more"));
    EXPECT_THAT(error(data, {2, 3, 3}, {}, "ConvolutionBackpropData"),
                HasSubstr("must have rank 3 or more"));
  }
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 3}, {{"strides", ConvolutionInts{0}}}),
              HasSubstr("strides[0]: 0"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 3}, {{"dilations", ConvolutionInts{-1}}}),
              HasSubstr("dilations[0]: -1"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 3}, {{"strides", ConvolutionInts{1, 1}}}),
              HasSubstr("2 entries for 1 spatial axes"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 3}, {{"pads_end", ConvolutionInts{int64_t{1} << 31}}}),
              HasSubstr("pads_end[0]"));
  EXPECT_THAT(
      error({1, 3, 5}, {200000, 3, 1}, {{"pads_end", ConvolutionInts{(int64_t{1} << 31) - 1}}}),
      HasSubstr("more than 2^48 elements"));
  EXPECT_THAT(error({1, 3, 5}, {2, 3, 3}, {{"auto_pad", std::string("other")}}),
              HasSubstr("auto_pad"));
  EXPECT_THAT(error({1, 3, 2, 2, 2, 2}, {2, 3, 1, 1, 1, 1}), HasSubstr("4 spatial axes"));
  EXPECT_THAT(
      error({1, 2, 1}, {2, 2, 1}, {{"pads_end", ConvolutionInts{1}}}, "ConvolutionBackpropData"),
      HasSubstr("leave nothing"));
  EXPECT_THAT(ErrorOf({"Convolution", {I64({1, 1, 1}, {1}), I64({1, 1, 1}, {1})}}),
              HasSubstr("element type i64"));
}

// What output_shape asks for is compared with OpenVINO (tests/conformance).
TEST(ConvolutionBackpropData, RefusesShapesThatCannotBe) {
  const auto error = [](std::vector<int64_t> extents, const char* auto_pad) {
    Random random(5);
    Call call{"ConvolutionBackpropData",
              {random.Floats({1, 2, 3}), random.Floats({2, 1, 2})},
              {{"auto_pad", std::string(auto_pad)}}};
    if (!extents.empty()) {
      call.inputs.push_back(I64({static_cast<int64_t>(extents.size())}, extents));
    }
    return ErrorOf(call);
  };
  EXPECT_THAT(error({}, "same_upper"), HasSubstr("need the input output_shape"));
  EXPECT_THAT(error({4, 4}, "explicit"), HasSubstr("output_shape: has 2 elements for 1"));
  EXPECT_THAT(error({0}, "explicit"), HasSubstr("output_shape[0]: 0 is outside [1, 2^31)"));
}

}  // namespace
}  // namespace beamwright::ops
