// Every kernel gives the bits of the plain reference with each instruction set, for ordinary
// numbers, edges of ranges and what is not a number. NaN's own bits are not compared.

#include "ops/base/vector_isa.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/kernels/cell_parts.h"
#include "ops/kernels/math.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/topk.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

class VectorIsaTest : public ::testing::TestWithParam<VectorIsa> {
 protected:
  void SetUp() override {
    const ScopedVectorIsa scope(GetParam());
    if (CurrentVectorIsa() != GetParam()) {
      GTEST_SKIP() << "not on this machine";
    }
  }
};

// What `compute` returns with the plain reference and with the instruction set, element by element.
template <typename Compute>
void ExpectPlainBits(VectorIsa isa, Compute compute) {
  std::vector<float> plain;
  std::vector<float> vectors;
  {
    const ScopedVectorIsa scope(VectorIsa::kPlain);
    plain = compute();
  }
  {
    const ScopedVectorIsa scope(isa);
    vectors = compute();
  }
  ASSERT_EQ(plain.size(), vectors.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    if (std::isnan(plain[i])) {
      ASSERT_TRUE(std::isnan(vectors[i])) << "element " << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(plain[i]), std::bit_cast<uint32_t>(vectors[i]))
          << "element " << i << ": " << plain[i] << " and " << vectors[i];
    }
  }
}

// Bit patterns from all over f32: every sign and exponent, subnormals, infinities and NaN among
// them; and many ordinary numbers.
std::vector<float> AllKinds() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 104729) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (int i = -100000; i <= 100000; ++i) {
    values.push_back(static_cast<float>(i) * 1e-3f);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  values.insert(values.end(), {infinity, -infinity, std::nanf(""), 0.0f, -0.0f, 1e-45f, 88.73f});
  return values;
}

TEST_P(VectorIsaTest, Activations) {
  const std::vector<float> inputs = AllKinds();
  for (const ActivationKind kind :
       {ActivationKind::kSigmoid, ActivationKind::kTanh, ActivationKind::kRelu,
        ActivationKind::kHardSigmoid, ActivationKind::kElu, ActivationKind::kSoftsign}) {
    for (const float clip : {0.0f, 1.5f}) {
      ExpectPlainBits(GetParam(), [&] {
        std::vector<float> values = inputs;
        Activate({kind, 0.2f, 0.5f}, clip, absl::MakeSpan(values));
        return values;
      });
    }
  }
}

// The fused gates against the separate passes of the same formulas, too.
TEST_P(VectorIsaTest, Gates) {
  Random random(1);
  for (const int64_t hidden : {1, 15, 16, 17, 90}) {
    const Tensor sums = random.Floats({4 * hidden}, -6, 6);
    const Tensor other = random.Floats({4 * hidden}, -6, 6);
    const Tensor cell = random.Floats({hidden}, -2, 2);
    const Tensor biases = random.Floats({4 * hidden});
    for (const float* bias : {static_cast<const float*>(nullptr), biases.data<float>()}) {
      ExpectPlainBits(GetParam(), [&] {
        std::vector<float> out(static_cast<size_t>(2 * hidden));
        LstmGates({sums.data<float>(), hidden, other.data<float>(), hidden, bias, hidden},
                  cell.data<float>(), hidden, out.data(), out.data() + hidden);
        return out;
      });
      ExpectPlainBits(GetParam(), [&] {
        std::vector<float> out(static_cast<size_t>(hidden));
        GruGates({sums.data<float>(), hidden, other.data<float>(), hidden, bias, hidden},
                 cell.data<float>(), hidden, out.data());
        return out;
      });
    }
    const ScopedVectorIsa scope(GetParam());
    std::vector<float> gates(sums.data<float>(), sums.data<float>() + 4 * hidden);
    for (size_t k = 0; k < gates.size(); ++k) {
      gates[k] = (gates[k] + biases.data<float>()[k]) + other.data<float>()[k];
    }
    const auto part = [&](int64_t index) {
      return absl::MakeSpan(gates).subspan(static_cast<size_t>(index * hidden),
                                           static_cast<size_t>(hidden));
    };
    for (const int64_t index : {0, 1, 3}) {
      Activate({ActivationKind::kSigmoid}, 0, part(index));
    }
    Activate({ActivationKind::kTanh}, 0, part(2));
    std::vector<float> fused(static_cast<size_t>(2 * hidden));
    LstmGates(
        {sums.data<float>(), hidden, other.data<float>(), hidden, biases.data<float>(), hidden},
        cell.data<float>(), hidden, fused.data(), fused.data() + hidden);
    for (size_t k = 0; k < static_cast<size_t>(hidden); ++k) {
      const float c = part(0)[k] * cell.data<float>()[k] + part(1)[k] * part(2)[k];
      ASSERT_EQ(fused[k], c);
      std::vector<float> h = {c};
      Activate({ActivationKind::kTanh}, 0, absl::MakeSpan(h));
      ASSERT_EQ(fused[static_cast<size_t>(hidden) + k], part(3)[k] * h[0]);
    }
  }
}

TEST_P(VectorIsaTest, Softmax) {
  Random random(2);
  for (const int64_t count : {1, 7, 16, 63, 64, 65, 1000}) {
    const Tensor scores = random.Floats({3, count}, -20, 20);
    ExpectPlainBits(GetParam(), [&] {
      return Floats(RunOne({"SoftMax", {scores}, {{"axis", int64_t{1}}}}));
    });
  }
}

// An element of a product of computed operands, in the order that the header gives.
float ProductElement(const float* a, const StoredMatrix& b, int64_t depth, int64_t column) {
  std::array<float, 16> lanes = {};
  for (int64_t k = 0; k < depth; ++k) {
    float& lane = lanes[b.transposed ? static_cast<size_t>(k % 16) : 0];
    lane = std::fma(
        a[k], b.transposed ? b.data[column * b.stride + k] : b.data[k * b.stride + column], lane);
  }
  for (size_t width = 8; b.transposed && width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) {
      lanes[i] += lanes[i + width];
    }
  }
  return lanes[0];
}

TEST_P(VectorIsaTest, RowsOfComputedProductsHaveTheirOwnBits) {
  Random random(4);
  for (const int64_t depth : {0, 1, 7, 16, 33, 100}) {
    for (const int64_t columns : {1, 7, 8, 16, 33, 150}) {
      for (const float scale : {1.0f, 1e-22f}) {  // terms of 1e-44 underflow, to -0 as well
        const Tensor a = random.Floats({kMostFewRows, depth}, -scale, scale);
        const Tensor stored = random.Floats({depth * columns}, -scale, scale);
        for (const bool transposed : {false, true}) {
          const StoredMatrix b{stored.data<float>(), transposed ? depth : columns, transposed};
          for (const VectorIsa isa : {VectorIsa::kPlain, GetParam()}) {
            const ScopedVectorIsa scope(isa);
            for (int count = 1; count <= kMostFewRows; ++count) {
              // What is behind the last column must stay as it is.
              std::vector<std::vector<float>> out(
                  static_cast<size_t>(count),
                  std::vector<float>(static_cast<size_t>(columns + 1), 5));
              FewRows rows;
              for (; rows.count < count; ++rows.count) {
                rows.a[rows.count] = a.data<float>() + rows.count * depth;
                rows.out[rows.count] = out[static_cast<size_t>(rows.count)].data();
              }
              MultiplyRows(rows, b, depth, columns);
              for (int row = 0; row < count; ++row) {
                const std::vector<float>& got = out[static_cast<size_t>(row)];
                for (int64_t n = 0; n < columns; ++n) {
                  ASSERT_EQ(std::bit_cast<uint32_t>(got[static_cast<size_t>(n)]),
                            std::bit_cast<uint32_t>(ProductElement(rows.a[row], b, depth, n)))
                      << "depth " << depth << ", column " << n << " of " << columns << ", row "
                      << row << " of " << count << (transposed ? ", transposed" : "");
                }
                ASSERT_EQ(got.back(), 5);
              }
            }
          }
        }
      }
    }
  }
}

// Every lane of the sum is -0, also those that the last few terms do not reach.
TEST_P(VectorIsaTest, TermsThatUnderflowLeaveTheirSign) {
  const std::vector<float> a(23, 1e-30f);
  const std::vector<float> stored(a.size() * a.size(), -1e-30f);
  const auto depth = static_cast<int64_t>(a.size());
  for (const VectorIsa isa : {VectorIsa::kPlain, GetParam()}) {
    const ScopedVectorIsa scope(isa);
    std::vector<float> out(a.size(), 5);
    FewRows rows;
    rows.count = 1;
    rows.a[0] = a.data();
    rows.out[0] = out.data();
    MultiplyRows(rows, {stored.data(), depth, /*transposed=*/true}, depth, depth);
    for (const float sum : out) {
      EXPECT_EQ(std::bit_cast<uint32_t>(sum), std::bit_cast<uint32_t>(-0.0f));
    }
  }
}

TEST_P(VectorIsaTest, Scan) {
  Random random(3);
  for (const int64_t vocabulary : {1, 5, 63, 64, 65, 300, 5000}) {
    const Tensor scores = random.Floats({vocabulary}, -10, 10);
    ExpectPlainBits(GetParam(), [&] {
      RowScan scan;
      EXPECT_TRUE(ScanRow(scores.span<float>(), ScoreKind::kLogits, {}, 8, scan).ok());
      std::vector<float> found = {scan.log_sum_exp};
      for (const Candidate& candidate : scan.best) {
        found.push_back(static_cast<float>(candidate.token));
        found.push_back(candidate.log_prob);
      }
      return found;
    });
  }
}

// In the last block and lane as well as in the first.
TEST_P(VectorIsaTest, ScanRefusesWhatIsNoNumber) {
  const ScopedVectorIsa scope(GetParam());
  for (const size_t count : {1, 64, 100, 1000}) {
    for (const size_t at : {size_t{0}, count / 2, count - 1}) {
      for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        std::vector<float> scores(count, 1.0f);
        scores[at] = bad;
        RowScan scan;
        const absl::Status status = ScanRow(scores, ScoreKind::kLogits, {}, 3, scan);
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << at << " of " << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, VectorIsaTest,
                         ::testing::Values(VectorIsa::kAvx2, VectorIsa::kAvx512));

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// Many floats of [low, high], ends included.
template <typename Check>
void Sweep(float low, float high, Check check) {
  constexpr int kCount = 400000;
  for (int i = 0; i <= kCount; ++i) {
    check(static_cast<float>(low + (double{high} - low) * i / kCount));
  }
}

void ExpectRelative(float got, double expected, double bound, float x) {
  ASSERT_LE(std::fabs(got - expected), bound * std::fabs(expected)) << "at " << x;
}

TEST(Math, RelativeErrors) {
  Sweep(-87.0f, 88.7f, [](float x) { ExpectRelative(Exp(x), std::exp(double{x}), 2e-7, x); });
  Sweep(-20.0f, 20.0f, [](float x) { ExpectRelative(Tanh(x), std::tanh(double{x}), 2e-7, x); });
  Sweep(-0.01f, 0.01f, [](float x) { ExpectRelative(Tanh(x), std::tanh(double{x}), 2e-7, x); });
  Sweep(-80.0f, 80.0f,
        [](float x) { ExpectRelative(Sigmoid(x), 1 / (1 + std::exp(-double{x})), 2e-7, x); });
  Sweep(-100.0f, 88.0f, [](float exponent) {
    const float x = static_cast<float>(std::exp(double{exponent}));
    const double expected = std::log(double{x});
    ASSERT_LE(std::fabs(Log(x) - expected), 2e-7 * std::max(1.0, std::fabs(expected))) << x;
  });
}

TEST(Math, EdgesAndNan) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-kInfinite), 0.0f);
  EXPECT_EQ(Exp(kInfinite), kInfinite);
  EXPECT_EQ(Exp(89.0f), kInfinite);
  EXPECT_GT(Exp(-100.0f), 0.0f);  // subnormal
  EXPECT_EQ(Log(1.0f), 0.0f);
  EXPECT_EQ(Log(0.0f), -kInfinite);
  EXPECT_EQ(Log(kInfinite), kInfinite);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
  EXPECT_NEAR(Log(1e-40f), std::log(double{1e-40f}), 1e-4);
  EXPECT_EQ(Tanh(100.0f), 1.0f);
  EXPECT_EQ(Tanh(-kInfinite), -1.0f);
  EXPECT_EQ(Sigmoid(kInfinite), 1.0f);
  EXPECT_EQ(Sigmoid(-kInfinite), 0.0f);
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(Exp(nan)) && std::isnan(Log(nan)) && std::isnan(Tanh(nan)) &&
              std::isnan(Sigmoid(nan)));
}

// A number's result does not depend on where in an array it stands.
TEST(Math, PositionDoesNotChangeBits) {
  std::vector<float> in(67);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = 0.37f * static_cast<float>(i) - 11.0f;
  }
  for (size_t start = 0; start < in.size(); ++start) {
    std::vector<float> exp(in.size() - start), tanh(exp.size()), sigmoid(exp.size()),
        log(exp.size());
    for (size_t i = 0; i < exp.size(); ++i) exp[i] = Exp(in[start + i]);
    for (size_t i = 0; i < exp.size(); ++i) tanh[i] = Tanh(in[start + i]);
    for (size_t i = 0; i < exp.size(); ++i) sigmoid[i] = Sigmoid(in[start + i]);
    for (size_t i = 0; i < exp.size(); ++i) log[i] = Log(std::fabs(in[start + i]));
    for (size_t i = 0; i < exp.size(); ++i) {
      volatile float x = in[start + i];
      EXPECT_EQ(exp[i], Exp(x));
      EXPECT_EQ(tanh[i], Tanh(x));
      EXPECT_EQ(sigmoid[i], Sigmoid(x));
      EXPECT_EQ(log[i], Log(std::fabs(x)));
    }
  }
}

TEST(Math, LaneSumCountsEveryElementOnce) {
  for (int64_t count = 0; count < 70; ++count) {
    EXPECT_EQ(LaneSum(count, [](int64_t i) { return static_cast<float>(i + 1); }),
              static_cast<float>(count * (count + 1) / 2));
  }
}

}  // namespace

}  // namespace beamwright::ops
