#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/base/vector_isa.h"
#include "ops/kernels/packed_matmul.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;

// Element [batch.., m, n] by definition, in double. Shapes of rank >= 2, not transposed.
std::vector<double> Naive(const Tensor& a, const Tensor& b, const Shape& batch) {
  const int64_t m = a.dim(a.rank() - 2), k = a.dim(a.rank() - 1), n = b.dim(b.rank() - 1);
  const auto offset = [&](const Tensor& t,
                          int64_t index) {  // of the matrix that index broadcasts to
    int64_t result = 0, stride = t.dim(t.rank() - 1) * t.dim(t.rank() - 2);
    for (int i = static_cast<int>(batch.size()) - 1, axis = t.rank() - 3; i >= 0; --i, --axis) {
      const int64_t at = index % batch[static_cast<size_t>(i)];
      index /= batch[static_cast<size_t>(i)];
      if (axis >= 0) {
        result += t.dim(axis) == 1 ? 0 : at * stride;
        stride *= t.dim(axis);
      }
    }
    return result;
  };
  std::vector<double> out;
  for (int64_t i = 0; i < NumElements(batch); ++i) {
    const float* left = a.data<float>() + offset(a, i);
    const float* right = b.data<float>() + offset(b, i);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t d = 0; d < k; ++d) sum += double{left[row * k + d]} * right[d * n + column];
        out.push_back(sum);
      }
    }
  }
  return out;
}

Tensor SwapLastTwo(const Tensor& tensor) {
  std::vector<int64_t> order;
  for (int i = 0; i < tensor.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return RunOne({"Transpose", {tensor, I64({tensor.rank()}, order)}});
}

TEST(MatMul, EqualsTheDefinition) {
  Random random(1);
  const std::vector<std::pair<Shape, Shape>> batches = {
      {{}, {}}, {{3}, {}}, {{}, {2}}, {{2, 1}, {1, 3}}, {{2, 3}, {3}}, {{0}, {}}, {{4}, {1}}};
  for (const auto& [batch_a, batch_b] : batches) {
    for (int trial = 0; trial < 12; ++trial) {
      const int64_t m = random.Int(1, 9), k = random.Int(1, 40), n = random.Int(1, 20);
      Shape shape_a = batch_a, shape_b = batch_b;
      shape_a.insert(shape_a.end(), {m, k});
      shape_b.insert(shape_b.end(), {k, n});
      const Tensor a = random.Floats(shape_a), b = random.Floats(shape_b);
      const Shape batch = *BroadcastShapes(batch_a, batch_b);
      const std::vector<double> expected = Naive(a, b, batch);
      for (int form = 0; form < 8; ++form) {
        const bool ta = (form & 1) != 0, tb = (form & 2) != 0;
        Call call{"MatMul",
                  {ta ? SwapLastTwo(a) : a, tb ? SwapLastTwo(b) : b},
                  {{"transpose_a", ta}, {"transpose_b", tb}}};
        if ((form & 4) != 0) call.constants = {1};
        const Tensor out = RunOne(call);
        Shape shape = batch;
        shape.insert(shape.end(), {m, n});
        ASSERT_EQ(out.shape(), shape);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(Floats(out)[i], expected[i], 1e-5);
        }
      }
    }
  }
}

// 16-bit results are the f32 result rounded once, packed or not; other types compute as they are.
TEST(MatMul, EveryType) {
  Random random(11);
  const Tensor a = random.Floats({3, 20}), b = random.Floats({20, 7});
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor narrow_a = *Convert(a, dtype), narrow_b = *Convert(b, dtype);
    for (const std::vector<size_t>& constants : {std::vector<size_t>{}, std::vector<size_t>{1}}) {
      const Tensor wide =
          RunOne({"MatMul",
                  {*Convert(narrow_a, DType::kF32), *Convert(narrow_b, DType::kF32)},
                  {},
                  1,
                  constants});
      EXPECT_TRUE(SameBits(RunOne({"MatMul", {narrow_a, narrow_b}, {}, 1, constants}),
                           *Convert(wide, dtype)));
    }
  }
  for (const DType dtype : {DType::kF64, DType::kI64, DType::kI32, DType::kI16, DType::kI8,
                            DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    const Tensor left = *Convert(I64({2, 2}, {1, 2, 3, 4}), dtype);
    for (const bool transposed : {false, true}) {
      const Tensor out = RunOne(
          {"MatMul", {left, left}, {{"transpose_a", transposed}, {"transpose_b", transposed}}});
      EXPECT_EQ(out.dtype(), dtype);
      EXPECT_EQ(Floats(out), transposed ? std::vector<float>({7, 15, 10, 22})
                                        : std::vector<float>({7, 10, 15, 22}));
    }
  }
  const Tensor bytes = *Convert(I64({2}, {100, 100}), DType::kI8);
  EXPECT_EQ(Integers(RunOne({"MatMul", {bytes, bytes}})), std::vector<int64_t>({32}));  // 20000
  const Tensor odd = I64({1, 1}, {(int64_t{1} << 60) + 1});
  EXPECT_EQ(Integers(RunOne({"MatMul", {odd, I64({1, 1}, {1})}})), Integers(odd));
}

TEST(MatMul, VectorsLoseTheirAxis) {
  const Tensor vector = F32({2}, {1, 2});
  const Tensor matrix = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const std::vector<size_t>& constants : {std::vector<size_t>{}, std::vector<size_t>{1}}) {
    Tensor out = RunOne({"MatMul", {vector, matrix}, {}, 1, constants});
    EXPECT_EQ(out.shape(), Shape({3}));
    EXPECT_EQ(Floats(out), std::vector<float>({9, 12, 15}));
    out = RunOne({"MatMul", {matrix, vector}, {{"transpose_a", true}}, 1, constants});
    EXPECT_EQ(out.shape(), Shape({3}));
    EXPECT_EQ(Floats(out), std::vector<float>({9, 12, 15}));
    out = RunOne({"MatMul", {vector, vector}, {}, 1, constants});
    EXPECT_EQ(out.shape(), Shape({}));
    EXPECT_EQ(Floats(out), std::vector<float>({5}));
  }
}

// In f32 and rounded once: 2048 + 1 is a tie in f16, and would stay 2048 at each step.
TEST(MatMul, HalvesAreSummedInF32) {
  const Tensor a = *Convert(F32({1, 4}, {2048, 1, 1, 1}), DType::kF16);
  const Tensor ones = *Convert(F32({4, 1}, {1, 1, 1, 1}), DType::kF16);
  for (const std::vector<size_t>& constants : {std::vector<size_t>{}, std::vector<size_t>{1}}) {
    const Tensor product = RunOne({"MatMul", {a, ones}, {}, 1, constants});
    EXPECT_EQ(product.dtype(), DType::kF16);
    EXPECT_EQ(Floats(product), std::vector<float>({2052}));
  }
  EXPECT_THAT(ErrorOf({"MatMul", {a, F32({4, 1}, {1, 1, 1, 1})}}),
              HasSubstr("input 1: element type f32 is not that of input 0, f16"));
}

// As in attention with heads: each hypothesis has the bits that it has without the others.
TEST(MatMul, HypothesesThatMeetOneMatrixDoNotSeeEachOther) {
  Random random(5);
  const int64_t heads = 2, depth = 310, length = 190;  // of four queries: work for two threads
  for (const int64_t queries : {1, 4}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const Tensor keys = random.Floats(transpose_b ? Shape{1, heads, length, depth}
                                                      : Shape{1, heads, depth, length});
        const int64_t most = 9;
        const Tensor all = random.Floats(transpose_a ? Shape{most, heads, depth, queries}
                                                     : Shape{most, heads, queries, depth});
        const int64_t each = heads * queries * depth;
        const auto multiply = [&](int64_t first, int64_t count, int threads) {
          Shape shape = all.shape();
          shape[0] = count;
          const Tensor some = Tensor::Of<float>(
              shape, all.span<float>().subspan(static_cast<size_t>(first * each),
                                               static_cast<size_t>(count * each)));
          return Floats(RunOne({"MatMul",
                                {some, keys},
                                {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                                1,
                                {},
                                threads}));
        };
        std::vector<float> alone;
        for (int64_t i = 0; i < most; ++i) {
          const std::vector<float> out = multiply(i, 1, 1);
          alone.insert(alone.end(), out.begin(), out.end());
        }
        for (const int threads : {1, 2}) {
          EXPECT_EQ(multiply(0, most, threads), alone);
        }
      }
    }
  }
}

TEST(MatMul, Errors) {
  const Tensor a = F32({1, 2}, {1, 2}), b = F32({3, 1}, {1, 2, 3});
  EXPECT_THAT(ErrorOf({"MatMul", {a, b}}), HasSubstr("shapes [1, 2] and [3, 1] do not multiply"));
  EXPECT_THAT(ErrorOf({"MatMul", {a, I64({2, 1}, {1, 2})}}),
              HasSubstr("input 1: element type i64 is not that of input 0, f32"));
  EXPECT_THAT(ErrorOf({"MatMul", {Tensor::Scalar(1.0f), b}}), HasSubstr("scalar"));
  EXPECT_THAT(ErrorOf({"MatMul", {a}}), HasSubstr("1 inputs"));
}

// Rows of a product computed each alone, with each instruction set that this machine has.
class PackedInvariance : public ::testing::TestWithParam<VectorIsa> {
 protected:
  void SetUp() override {
    if (CurrentVectorIsa() != GetParam()) {
      GTEST_SKIP() << "not on this machine";
    }
  }
  const ScopedVectorIsa isa_{GetParam()};
};

TEST_P(PackedInvariance, ARowsBitsFollowFromTheRowAlone) {
  Random random(2);
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},    {7, 3},      {64, 512},
                                                {33, 700}, {129, 1025}, {256, 64}};
  for (const auto& [depth, columns] : shapes) {
    const Tensor weight = random.Floats({columns, depth});
    const Tensor bias = random.Floats({columns});
    const PackedMatMul packed({weight.data<float>(), columns, depth, depth}, true);
    const int64_t most = 150;
    const Tensor rows = random.Floats({most, depth});
    const PackedMatMul::Start start{bias.span<float>()};
    std::vector<float> alone(static_cast<size_t>(most * columns));
    for (int64_t row = 0; row < most; ++row) {
      packed.Run(1, {rows.data<float>() + row * depth, 1, depth, depth}, start,
                 {alone.data() + row * columns, 1, columns, columns});
    }
    double worst = 0;
    for (int64_t n = 0; n < columns; ++n) {
      double sum = bias.data<float>()[n];
      for (int64_t k = 0; k < depth; ++k) {
        sum += double{rows.data<float>()[k]} * weight.data<float>()[n * depth + k];
      }
      worst = std::max(worst, std::fabs(sum - alone[static_cast<size_t>(n)]));
    }
    EXPECT_LT(worst, 1e-4 + 1e-6 * static_cast<double>(depth));
    for (int64_t m = 1; m <= 70; ++m) {
      for (const int threads : {1, 2}) {
        const int64_t first = random.Int(0, most - m);
        std::vector<float> out(static_cast<size_t>(m * (columns + 5)));
        packed.Run(threads, {rows.data<float>() + first * depth, m, depth, depth}, start,
                   {out.data(), m, columns, columns + 5});
        for (int64_t row = 0; row < m; ++row) {
          ASSERT_EQ(
              std::memcmp(out.data() + row * (columns + 5), alone.data() + (first + row) * columns,
                          static_cast<size_t>(columns) * sizeof(float)),
              0)
              << "[" << depth << ", " << columns << "] row " << row << " of " << m;
        }
      }
    }
  }
}

// One chain of fused multiply-adds in ascending depth, from the start value: more than a tolerance,
// since it is what makes the instruction sets agree.
TEST_P(PackedInvariance, AnElementIsOneChainOfFusedMultiplyAdds) {
  Random random(3);
  for (const int64_t columns : {1, 31, 32, 33, 100, 512, 545}) {
    const int64_t depth = random.Int(1, 70);
    const Tensor weight = random.Floats({depth, columns});
    const PackedMatMul packed({weight.data<float>(), depth, columns, columns}, false);
    const int64_t rows = random.Int(1, 40);
    const Tensor a = random.Floats({rows, depth});
    const Tensor bias = random.Floats({columns});
    Tensor out = random.Floats({rows, columns});
    const Tensor before = Tensor::Of<float>(out.shape(), out.span<float>());
    packed.Run(1, {a.data<float>(), rows, depth, depth}, {bias.span<float>(), true},
               {out.mutable_data<float>(), rows, columns, columns});
    for (int64_t i = 0; i < rows * columns; ++i) {
      float sum = bias.data<float>()[i % columns] + before.data<float>()[i];
      for (int64_t k = 0; k < depth; ++k) {
        sum = std::fma(a.data<float>()[i / columns * depth + k],
                       weight.data<float>()[k * columns + i % columns], sum);
      }
      ASSERT_EQ(sum, out.data<float>()[i]) << rows << " rows, " << columns << " columns, " << i;
    }
  }
}

TEST_P(PackedInvariance, StartsFromOutputAndBias) {
  const float weight[] = {1, 2, 3, 4};
  const PackedMatMul packed({weight, 2, 2, 2}, false);
  const float a[] = {1, 1, 9, 2, 0, 9};  // stride 3
  float out[] = {100, 200, 300, 400};
  const float bias[] = {0.5f, 0.25f};
  packed.Run(1, {a, 2, 2, 3}, {bias, true}, {out, 2, 2, 2});
  EXPECT_THAT(out, ::testing::ElementsAre(104.5f, 206.25f, 302.5f, 404.25f));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PackedInvariance,
                         ::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2,
                                           VectorIsa::kAvx512));

}  // namespace
}  // namespace beamwright::ops
