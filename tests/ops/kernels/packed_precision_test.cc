// Products with weights in bf16 and int8: bit for bit against plain arithmetic that shares no code
// with the kernels, with each instruction set, and against f64 within the bounds of the rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/int8_strip_product.h"
#include "ops/kernels/packed_matmul.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class WithIsa : public ::testing::TestWithParam<VectorIsa> {
 protected:
  void SetUp() override {
    if (CurrentVectorIsa() != GetParam()) {
      GTEST_SKIP() << "not on this machine";
    }
  }
  const ScopedVectorIsa isa_{GetParam()};
};

class F32Product : public WithIsa {};
class Bf16Product : public WithIsa {};
class Bf16DotProduct : public WithIsa {};
class Bf16AmxProduct : public WithIsa {};
class Int8Product : public WithIsa {};

// A product's operands: weight [depth, columns].
struct Case {
  int64_t rows;
  int64_t depth;
  int64_t columns;
  Tensor a;
  Tensor weight;
  Tensor bias;
  Tensor before;

  Case(Random& random, int64_t num_rows, int64_t num_terms, int64_t num_columns)
      : rows(num_rows),
        depth(num_terms),
        columns(num_columns),
        a(random.Floats({rows, depth})),
        weight(random.Floats({depth, columns})),
        bias(random.Floats({columns})),
        before(random.Floats({rows, columns})) {}

  // bias + before + a * weight, in `precision`.
  std::vector<float> Run(Precision precision, int threads) const {
    const PackedMatMul packed({weight.data<float>(), depth, columns, columns}, false, precision);
    std::vector<float> out(before.data<float>(), before.data<float>() + rows * columns);
    packed.Run(threads, {a.data<float>(), rows, depth, depth}, {bias.span<float>(), true},
               {out.data(), rows, columns, columns});
    return out;
  }
};

// Shapes around every block: strips of 32 columns, groups of 4 of the depth, up to 14 rows.
std::vector<Case> Cases() {
  Random random(5);
  std::vector<Case> cases;
  for (const int64_t columns : {1, 15, 16, 17, 31, 32, 33, 63, 96, 129, 545}) {
    for (int i = 0; i < 6; ++i) {
      cases.emplace_back(random, random.Int(1, 40), random.Int(1, 70), columns);
    }
  }
  for (int64_t rows = 1; rows <= 30; ++rows) {
    cases.emplace_back(random, rows, 9, 200);
  }
  // Strips that are left over behind groups of four.
  for (const int64_t columns : {64, 70, 96, 100, 127, 192, 224, 230}) {
    cases.emplace_back(random, 1, 21, columns);
  }
  cases.emplace_back(random, 130, 64, 1100);
  // Several tiles of the depth, whole ones and not, by one to three of rows.
  for (const int64_t depth : {63, 64, 65, 128, 131, 250}) {
    for (const int64_t rows : {1, 15, 16, 17, 31, 32, 33, 50}) {
      cases.emplace_back(random, rows, depth, random.Int(1, 100));
    }
  }
  return cases;
}

TEST_P(F32Product, IsTheChain) {
  for (const Case& c : Cases()) {
    const std::vector<float> out = c.Run(Precision::kF32, 2);
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int64_t n = 0; n < c.columns; ++n) {
        const int64_t at = row * c.columns + n;
        float sum = c.bias.data<float>()[n] + c.before.data<float>()[at];
        for (int64_t k = 0; k < c.depth; ++k) {
          sum = std::fma(c.a.data<float>()[row * c.depth + k],
                         c.weight.data<float>()[k * c.columns + n], sum);
        }
        ASSERT_EQ(out[static_cast<size_t>(at)], sum)
            << c.rows << " rows, depth " << c.depth << ", " << c.columns << " columns, row " << row
            << ", column " << n;
      }
    }
  }
}

TEST_P(Bf16Product, IsTheChainWithRoundedWeights) {
  for (const Case& c : Cases()) {
    const Tensor rounded = *Convert(*Convert(c.weight, DType::kBF16), DType::kF32);
    const std::vector<float> out = c.Run(Precision::kBf16, 2);
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int64_t n = 0; n < c.columns; ++n) {
        const int64_t at = row * c.columns + n;
        float sum = c.bias.data<float>()[n] + c.before.data<float>()[at];
        for (int64_t k = 0; k < c.depth; ++k) {
          sum = std::fma(c.a.data<float>()[row * c.depth + k],
                         rounded.data<float>()[k * c.columns + n], sum);
        }
        ASSERT_EQ(out[static_cast<size_t>(at)], sum)
            << c.rows << " rows, depth " << c.depth << ", " << c.columns << " columns, row " << row
            << ", column " << n;
      }
    }
  }
}

// What the header of strip_product.h says, term by term.
float Normal(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

void Scale(Tensor& tensor, float factor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] *= factor;
  }
}

TEST_P(Bf16DotProduct, IsTheChainWithBothRoundedAndNoSubnormals) {
  // Small enough for products and sums that are not normal numbers; and as they come.
  for (const float scale : {1.0f, 1e-18f, 1e-20f, 1e-37f}) {
    for (Case c : Cases()) {
      Scale(c.a, scale);
      Scale(c.weight, scale);
      Scale(c.bias, scale * scale);
      Scale(c.before, scale * scale);
      const Tensor a = *Convert(*Convert(c.a, DType::kBF16), DType::kF32);
      const Tensor weight = *Convert(*Convert(c.weight, DType::kBF16), DType::kF32);
      const std::vector<float> out = c.Run(Precision::kBf16Dot, 2);
      for (int64_t row = 0; row < c.rows; ++row) {
        for (int64_t n = 0; n < c.columns; ++n) {
          const int64_t at = row * c.columns + n;
          float sum = Normal(Normal(c.bias.data<float>()[n]) + Normal(c.before.data<float>()[at]));
          for (int64_t k = 0; k < c.depth; ++k) {
            sum = Normal(std::fma(Normal(a.data<float>()[row * c.depth + k]),
                                  Normal(weight.data<float>()[k * c.columns + n]), sum));
          }
          // An odd depth ends with a term of zeros, which takes the sign off a zero.
          sum = c.depth % 2 == 1 ? sum + 0.0f : sum;
          ASSERT_EQ(std::bit_cast<uint32_t>(out[static_cast<size_t>(at)]),
                    std::bit_cast<uint32_t>(sum))
              << c.rows << " rows, depth " << c.depth << ", " << c.columns << " columns, row "
              << row << ", column " << n << ", scale " << scale << ": "
              << out[static_cast<size_t>(at)] << " " << sum;
        }
      }
    }
  }
}

// An element of bf16-amx, as the header of tile_product.h says: `terms` of the first halves,
// and of the second, of a tile's pairs.
float TileSum(float sum, absl::Span<const std::pair<float, float>> terms) {
  float halves[2] = {};
  for (size_t k = 0; k < terms.size(); ++k) {
    float& half = halves[k % 2];
    half = Normal(std::fma(Normal(terms[k].first), Normal(terms[k].second), half));
  }
  return Normal(Normal(sum) + Normal(halves[0] + halves[1]));
}

TEST_P(Bf16AmxProduct, AddsTilesOfTheDepth) {
  constexpr int64_t kTile = 32;
  for (const float scale : {1.0f, 1e-18f, 1e-20f, 1e-37f}) {
    for (Case c : Cases()) {
      Scale(c.a, scale);
      Scale(c.weight, scale);
      Scale(c.bias, scale * scale);
      Scale(c.before, scale * scale);
      const Tensor a = *Convert(*Convert(c.a, DType::kBF16), DType::kF32);
      const Tensor weight = *Convert(*Convert(c.weight, DType::kBF16), DType::kF32);
      const std::vector<float> out = c.Run(Precision::kBf16Amx, 2);
      for (int64_t row = 0; row < c.rows; ++row) {
        for (int64_t n = 0; n < c.columns; ++n) {
          const int64_t at = row * c.columns + n;
          float sum = Normal(Normal(c.bias.data<float>()[n]) + Normal(c.before.data<float>()[at]));
          for (int64_t begin = 0; begin < c.depth; begin += kTile) {
            std::vector<std::pair<float, float>> terms;
            for (int64_t k = begin; k < std::min(begin + kTile, c.depth); ++k) {
              terms.emplace_back(a.data<float>()[row * c.depth + k],
                                 weight.data<float>()[k * c.columns + n]);
            }
            terms.resize(kTile);  // zeros, which take the sign off a zero
            sum = TileSum(sum, terms);
          }
          ASSERT_EQ(std::bit_cast<uint32_t>(out[static_cast<size_t>(at)]),
                    std::bit_cast<uint32_t>(sum))
              << c.rows << " rows, depth " << c.depth << ", " << c.columns << " columns, row "
              << row << ", column " << n << ", scale " << scale << ": "
              << out[static_cast<size_t>(at)] << " " << sum;
        }
      }
    }
  }
}

// The mode that the kernel computes in ends with it.
TEST(Bf16Dot, LeavesSubnormalsToOthers) {
  Random random(7);
  const Case c(random, 3, 8, 40);
  (void)c.Run(Precision::kBf16Dot, 1);
  volatile float tiny = std::numeric_limits<float>::min();
  tiny = tiny / 4;
  EXPECT_GT(tiny, 0);
}

// A weight is the same whichever way its elements lie.
TEST(PackedWeight, MayBeTransposed) {
  Random random(11);
  for (const int64_t columns : {1, 31, 33, 100}) {
    for (const int64_t depth : {1, 15, 16, 17, 70}) {
      const Case c(random, 3, depth, columns);
      std::vector<float> turned(static_cast<size_t>(depth * columns));
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t n = 0; n < columns; ++n) {
          turned[static_cast<size_t>(n * depth + k)] = c.weight.data<float>()[k * columns + n];
        }
      }
      for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kBf16Dot,
                                        Precision::kBf16Amx, Precision::kInt8}) {
        const PackedMatMul packed({turned.data(), columns, depth, depth}, true, precision);
        std::vector<float> out(c.before.data<float>(), c.before.data<float>() + 3 * columns);
        packed.Run(1, {c.a.data<float>(), 3, depth, depth}, {c.bias.span<float>(), true},
                   {out.data(), 3, columns, columns});
        EXPECT_EQ(out, c.Run(precision, 1))
            << Name(precision) << ", depth " << depth << ", " << columns << " columns";
      }
    }
  }
}

// Ties go to even, and what is not a number stays so.
TEST(RoundToBf16, EdgesOfTheRange) {
  const std::pair<uint32_t, uint16_t> cases[] = {
      {0x3f808000, 0x3f80},  // halfway, even below
      {0x3f818000, 0x3f82},  // halfway, even above
      {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80}, {0x80000000, 0x8000}, {0x00000001, 0x0000},
      {0x7f7fffff, 0x7f80},  // beyond the largest
      {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0}, {0xffffffff, 0xffff}};
  for (const auto& [bits, expected] : cases) {
    EXPECT_EQ(RoundToBf16(std::bit_cast<float>(bits)).bits, expected) << std::hex << bits;
  }
}

// 8-bit numbers as the headers define them, in plain arithmetic.
struct Quantized {
  float scale = 0;
  std::vector<int64_t> values;
};

// Activations are scaled by a factor in f32, weights exactly.
enum class Scaling { kByFactor, kExactly };

Quantized Quantize(const std::vector<float>& numbers, Scaling scaling) {
  Quantized result;
  float largest = 0;
  for (const float x : numbers) {
    largest = std::max(largest, std::fabs(x));
  }
  result.scale = largest / 127.0f;
  for (const float x : numbers) {
    result.values.push_back(scaling == Scaling::kByFactor
                                ? std::lrint(x * (127.0f / largest))
                                : std::lrint(127.0 * double{x} / double{largest}));
  }
  return result;
}

TEST_P(Int8Product, IsTheExactSumScaled) {
  for (const Case& c : Cases()) {
    const std::vector<float> out = c.Run(Precision::kInt8, 2);
    for (int64_t n = 0; n < c.columns; ++n) {
      std::vector<float> column;
      for (int64_t k = 0; k < c.depth; ++k) {
        column.push_back(c.weight.data<float>()[k * c.columns + n]);
      }
      const Quantized w = Quantize(column, Scaling::kExactly);
      for (int64_t row = 0; row < c.rows; ++row) {
        const float* const a = c.a.data<float>() + row * c.depth;
        const Quantized q = Quantize({a, a + c.depth}, Scaling::kByFactor);
        int64_t sum = 0;
        double exact = 0;
        double bound = 0;
        for (int64_t k = 0; k < c.depth; ++k) {
          const auto i = static_cast<size_t>(k);
          sum += q.values[i] * w.values[i];
          exact += double{a[k]} * double{column[i]};
          bound += (std::fabs(a[k]) * w.scale + std::fabs(column[i]) * q.scale) / 2 +
                   q.scale * w.scale / 4;
        }
        const int64_t at = row * c.columns + n;
        const float start = c.bias.data<float>()[n] + c.before.data<float>()[at];
        const float got = out[static_cast<size_t>(at)];
        ASSERT_EQ(got, start + static_cast<float>(sum) * (q.scale * w.scale))
            << c.rows << " rows, depth " << c.depth << ", " << c.columns << " columns, row " << row
            << ", column " << n;
        ASSERT_NEAR(got, exact + double{start}, 1.001 * bound + 1e-5);
      }
    }
  }
}

// The largest sums there can be: intermediate ones of 16 bits would saturate.
TEST_P(Int8Product, TheLargestSumsAreExact) {
  for (const int64_t depth : {int64_t{2}, int64_t{255}, kMaxInt8Depth}) {
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> a(static_cast<size_t>(3 * depth), 127.0f);
      const std::vector<float> weight(static_cast<size_t>(33 * depth), sign * 127.0f);
      const PackedMatMul packed({weight.data(), 33, depth, depth}, true, Precision::kInt8);
      ASSERT_EQ(packed.precision(), Precision::kInt8);
      std::vector<float> out(3 * 33);
      packed.Run(1, {a.data(), 3, depth, depth}, {}, {out.data(), 3, 33, 33});
      for (const float x : out) {
        ASSERT_EQ(x, sign * static_cast<float>(127 * 127 * depth)) << "depth " << depth;
      }
    }
  }
  const std::vector<float> deeper(static_cast<size_t>(kMaxInt8Depth + 1), 1.0f);
  EXPECT_EQ(
      PackedMatMul({deeper.data(), 1, kMaxInt8Depth + 1, kMaxInt8Depth + 1}, true, Precision::kInt8)
          .precision(),
      Precision::kF32);
}

// A row with NaN or infinity is NaN, others do not notice; rows and columns of zeros, and numbers
// too small to divide by, are zeros.
TEST_P(Int8Product, RowsThatHaveNoScale) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {1,      2,      3,         //
                                0,      0,      0,         //
                                1,      -2,     kNaN,      //
                                1,      -2,     infinity,  //
                                1e-38f, 1e-39f, 0};
  // Columns: ordinary, zeros, one that is not finite.
  const std::vector<float> weight = {1, 0, 1,  //
                                     1, 0, 2,  //
                                     1, 0, infinity};
  const PackedMatMul packed({weight.data(), 3, 3, 3}, false, Precision::kInt8);
  const std::vector<float> bias = {0.5f, 0.25f, 0};
  std::vector<float> out(15, -1.0f);
  packed.Run(1, {a.data(), 5, 3, 3}, {bias, false}, {out.data(), 5, 3, 3});
  EXPECT_NEAR(out[0], 6.5f, 0.05f);
  EXPECT_EQ(out[1], 0.25f);
  for (const int row : {1, 4}) {
    EXPECT_EQ(out[static_cast<size_t>(3 * row)], 0.5f) << row;
    EXPECT_EQ(out[static_cast<size_t>(3 * row + 1)], 0.25f) << row;
  }
  for (const int row : {2, 3}) {
    EXPECT_TRUE(std::isnan(out[static_cast<size_t>(3 * row)])) << row;
    EXPECT_TRUE(std::isnan(out[static_cast<size_t>(3 * row + 1)])) << row;
  }
  for (size_t row = 0; row < 5; ++row) {
    EXPECT_TRUE(std::isnan(out[3 * row + 2])) << row;
  }
}

class Invariance : public ::testing::TestWithParam<std::tuple<VectorIsa, Precision>> {};

// A row alone, among others, in separate panels: the same bits, and those of the plain reference.
TEST_P(Invariance, ARowsBitsFollowFromTheRowAlone) {
  const auto [isa, precision] = GetParam();
  Random random(2);
  // Then rows lie 4 KiB apart in one of the forms that activations have. The last weight is read
  // as from memory in all precisions.
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},     {7, 3},     {33, 300},
                                                {65, 545},  {300, 70},  {1024, 70},
                                                {2048, 33}, {4096, 40}, {2048, 2085}};
  for (const auto& [depth, columns] : shapes) {
    const Tensor weight = random.Floats({columns, depth});
    const PackedMatMul packed({weight.data<float>(), columns, depth, depth}, true, precision);
    const int64_t most = columns > 2000 ? 9 : 24;
    const Tensor rows = random.Floats({most, depth});
    std::vector<float> alone(static_cast<size_t>(most * columns));
    {
      const ScopedVectorIsa plain(VectorIsa::kPlain);
      for (int64_t row = 0; row < most; ++row) {
        packed.Run(1, {rows.data<float>() + row * depth, 1, depth, depth}, {},
                   {alone.data() + row * columns, 1, columns, columns});
      }
    }
    const ScopedVectorIsa scope(isa);
    if (CurrentVectorIsa() != isa) {
      GTEST_SKIP() << "not on this machine";
    }
    for (int64_t m = 1; m <= most; ++m) {
      const int64_t first = random.Int(0, most - m);
      std::vector<float> out(static_cast<size_t>(m * columns));
      packed.Run(2, {rows.data<float>() + first * depth, m, depth, depth}, {},
                 {out.data(), m, columns, columns});
      ASSERT_EQ(std::memcmp(out.data(), alone.data() + first * columns, out.size() * sizeof(float)),
                0)
          << "[" << depth << ", " << columns << "] " << m << " rows";
    }
    PackedMatMul::Activations activations;
    packed.Prepare(1, {rows.data<float>(), most, depth, depth}, activations);
    for (int64_t column = 0; column < columns; column += 96) {
      const int64_t width = std::min<int64_t>(96, columns - column);
      std::vector<float> out(static_cast<size_t>(3 * width));
      packed.RunPanel(activations, 5, column, {}, {out.data(), 3, width, width});
      for (int64_t row = 0; row < 3; ++row) {
        ASSERT_EQ(std::memcmp(out.data() + row * width, alone.data() + (5 + row) * columns + column,
                              static_cast<size_t>(width) * sizeof(float)),
                  0)
            << "panel at " << column << ", row " << row;
      }
    }
  }
}

constexpr VectorIsa kIsas[] = {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512,
                               VectorIsa::kAmx};

INSTANTIATE_TEST_SUITE_P(InstructionSets, F32Product, ::testing::ValuesIn(kIsas));
INSTANTIATE_TEST_SUITE_P(InstructionSets, Bf16Product, ::testing::ValuesIn(kIsas));
INSTANTIATE_TEST_SUITE_P(InstructionSets, Bf16DotProduct, ::testing::ValuesIn(kIsas));
INSTANTIATE_TEST_SUITE_P(InstructionSets, Bf16AmxProduct, ::testing::ValuesIn(kIsas));
INSTANTIATE_TEST_SUITE_P(InstructionSets, Int8Product, ::testing::ValuesIn(kIsas));
INSTANTIATE_TEST_SUITE_P(
    All, Invariance,
    ::testing::Combine(::testing::ValuesIn(kIsas),
                       ::testing::Values(Precision::kF32, Precision::kBf16, Precision::kBf16Dot,
                                         Precision::kBf16Amx, Precision::kInt8)));

}  // namespace
}  // namespace beamwright::ops
