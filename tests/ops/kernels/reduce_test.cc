#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/vector_isa.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Reduce, EqualsNaiveLoops) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    Shape shape;
    std::vector<int64_t> axes;
    for (int64_t i = 0, rank = random.Int(1, 4); i < rank; ++i) {
      shape.push_back(random.Int(1, 20));
      if (random.Int(0, 1) == 0) axes.push_back(random.Int(0, 1) == 0 ? i : i - rank);
    }
    const Tensor x = random.Floats(shape, 0.5f, 1.5f);
    const bool keep = random.Int(0, 1) == 0;
    const int rank = static_cast<int>(shape.size());
    Shape kept = shape;
    for (const int64_t axis : axes) kept[static_cast<size_t>(*NormalizeAxis(axis, rank))] = 1;
    const size_t count = static_cast<size_t>(NumElements(kept));
    std::vector<double> sum(count, 0), product(count, 1), most(count, -1e9), least(count, 1e9);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      size_t at = 0;
      int64_t rest = i, stride = 1;
      for (size_t axis = shape.size(); axis-- > 0;) {
        at += static_cast<size_t>(kept[axis] == 1 ? 0 : rest % shape[axis] * stride);
        rest /= shape[axis];
        stride *= kept[axis];
      }
      const double value = x.data<float>()[i];
      sum[at] += value;
      product[at] *= value;
      most[at] = std::max(most[at], value);
      least[at] = std::min(least[at], value);
    }
    const auto run = [&](const std::string& op) {
      return Floats(RunOne({op,
                            {x, I64({static_cast<int64_t>(axes.size())}, axes)},
                            {{"keep_dims", keep}},
                            1,
                            {1}}));
    };
    const double each = static_cast<double>(x.num_elements()) / static_cast<double>(count);
    const std::vector<float> sums = run("ReduceSum"), means = run("ReduceMean"),
                             maxima = run("ReduceMax"), minima = run("ReduceMin"),
                             products = run("ReduceProd");
    ASSERT_EQ(sums.size(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(sums[i], sum[i], 1e-6 * each + 1e-5 * std::fabs(sum[i]));
      ASSERT_NEAR(means[i], sum[i] / each, 1e-5);
      ASSERT_EQ(maxima[i], static_cast<float>(most[i]));
      ASSERT_EQ(minima[i], static_cast<float>(least[i]));
      ASSERT_NEAR(products[i], product[i], 1e-3 * std::fabs(product[i]) + 1e-30);
    }
  }
}

// Few elements far apart, as pairs of steps, sum to the bits that they sum to side by side.
TEST(Reduce, SumsOfFewHaveTheSameBitsOnAnyAxis) {
  Random random(2);
  for (const int64_t few : {1, 2, 3, 4, 5}) {
    Tensor x = random.Floats({3, few, 37});
    std::fill_n(x.mutable_data<float>(), 5, -0.0f);
    const Tensor turned = RunOne({"Transpose", {x, I64({3}, {0, 2, 1})}, {}, 1, {1}});
    for (const char* const op : {"ReduceSum", "ReduceMean"}) {
      for (const VectorIsa isa : {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512}) {
        const ScopedVectorIsa scope(isa);
        EXPECT_TRUE(SameBits(RunOne({op, {x, I64({1}, {1})}, {{"keep_dims", false}}, 1, {1}}),
                             RunOne({op, {turned, I64({1}, {2})}, {{"keep_dims", false}}, 1, {1}})))
            << op << " of " << few;
      }
    }
  }
}

TEST(Reduce, ShapesIntegersAndEdges) {
  const Tensor x = I64({2, 2}, {1, 2, 3, -8});
  Tensor out = RunOne({"ReduceSum", {x, I64({1}, {1})}, {{"keep_dims", true}}});
  EXPECT_EQ(out.shape(), Shape({2, 1}));
  EXPECT_THAT(Integers(out), ElementsAre(3, -5));
  EXPECT_THAT(Integers(RunOne({"ReduceMean", {x, I64({1}, {1})}})), ElementsAre(1, -2));
  EXPECT_THAT(Integers(RunOne({"ReduceMax", {x, Tensor::Scalar<int64_t>(0)}})), ElementsAre(3, 2));
  EXPECT_TRUE(SameBits(RunOne({"ReduceSum", {x, I64({0}, {})}}), x));
  const Tensor none(DType::kF32, {0, 2});
  EXPECT_THAT(Floats(RunOne({"ReduceSum", {none, I64({1}, {0})}})), ElementsAre(0, 0));
  EXPECT_THAT(Floats(RunOne({"ReduceMax", {none, I64({1}, {0})}})),
              ElementsAre(-std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()));
  EXPECT_THAT(ErrorOf({"ReduceMean", {Tensor(DType::kI64, {0, 2}), I64({1}, {0})}}),
              HasSubstr("mean of no integers"));
  EXPECT_THAT(ErrorOf({"ReduceSum", {x, I64({1}, {2})}}), HasSubstr("axis 2"));
  EXPECT_THAT(ErrorOf({"ReduceSum", {x, I64({2}, {1, -1})}}), HasSubstr("named twice"));
  const Tensor nan = F32({3}, {1, std::nanf(""), 2});
  EXPECT_TRUE(std::isnan(Floats(RunOne({"ReduceMax", {nan, I64({1}, {0})}}))[0]));
}

TEST(Reduce, NormsAndLogic) {
  const Tensor x = F32({2, 3}, {1, -2, 2, -3, 0, 4});
  const Tensor last = I64({1}, {-1}), all = I64({2}, {0, 1}), none = I64({1}, {0});
  EXPECT_THAT(Floats(RunOne({"ReduceL1", {x, last}})), ElementsAre(5, 7));
  EXPECT_THAT(Floats(RunOne({"ReduceL2", {x, last}})), ElementsAre(3, 5));
  const Tensor flags = *Convert(I64({2, 3}, {1, 1, 1, 1, 0, 1}), DType::kBool);
  EXPECT_THAT(Integers(RunOne({"ReduceLogicalAnd", {flags, last}})), ElementsAre(1, 0));
  EXPECT_THAT(Integers(RunOne({"ReduceLogicalOr", {flags, last}})), ElementsAre(1, 1));
  EXPECT_THAT(Integers(RunOne({"ReduceLogicalAnd", {flags, all}, {{"keep_dims", true}}})),
              ElementsAre(0));
  const Tensor empty(DType::kBool, {0, 2});
  EXPECT_THAT(Integers(RunOne({"ReduceLogicalAnd", {empty, none}})), ElementsAre(1, 1));
  EXPECT_THAT(Integers(RunOne({"ReduceLogicalOr", {empty, none}})), ElementsAre(0, 0));
  EXPECT_THAT(ErrorOf({"ReduceLogicalOr", {x, last}}), HasSubstr("only boolean"));
  EXPECT_THAT(ErrorOf({"ReduceL1", {flags, last}}), HasSubstr("boolean is not supported"));
}

TEST(Softmax, EqualsNaiveAndRowsStandAlone) {
  Random random(2);
  for (const int64_t axis : {0, 1, 2, -1, -3}) {
    const Tensor x = random.Floats({5, 19, 7}, -30, 30);
    const Tensor soft = RunOne({"SoftMax", {x}, {{"axis", axis}}});
    const Tensor logs = RunOne({"LogSoftmax", {x}, {{"axis", axis}}});
    const int normal = *NormalizeAxis(axis, 3);
    int64_t stride = 1;
    for (int i = normal + 1; i < 3; ++i) stride *= x.dim(i);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t first = i - i / stride % x.dim(normal) * stride;
      double sum = 0;
      for (int64_t k = 0; k < x.dim(normal); ++k) {
        sum += std::exp(double{x.data<float>()[first + k * stride]});
      }
      const double expected = std::exp(double{x.data<float>()[i]}) / sum;
      ASSERT_NEAR(soft.data<float>()[i], expected, 1e-6);
      ASSERT_NEAR(logs.data<float>()[i], std::log(expected), 1e-5);
    }
  }
  const Tensor x = random.Floats({9, 100});
  const Tensor all = RunOne({"SoftMax", {x}});
  for (int64_t row = 0; row < 9; ++row) {
    EXPECT_TRUE(SameBits(all.Rows(row, row + 1), RunOne({"SoftMax", {x.Rows(row, row + 1)}})));
  }
  EXPECT_THAT(ErrorOf({"SoftMax", {x}, {{"axis", int64_t{2}}}}), HasSubstr("axis 2"));
}

}  // namespace
}  // namespace beamwright::ops
