#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Element of `tensor` that result coordinates (row-major `index` in `out`) broadcast to.
template <typename T>
T Broadcasted(const Tensor& tensor, const Shape& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = 1; i <= static_cast<int>(out.size()); ++i) {
    const int64_t at = index % out[out.size() - static_cast<size_t>(i)];
    index /= out[out.size() - static_cast<size_t>(i)];
    if (i <= tensor.rank()) {
      offset += tensor.dim(tensor.rank() - i) == 1 ? 0 : at * stride;
      stride *= tensor.dim(tensor.rank() - i);
    }
  }
  return tensor.data<T>()[offset];
}

// A random shape that broadcasts into `out`.
Shape RandomPart(Random& random, const Shape& out) {
  Shape shape(out.begin() + random.Int(0, static_cast<int64_t>(out.size())), out.end());
  for (int64_t& dim : shape) dim = random.Int(0, 2) == 0 ? 1 : dim;
  return shape;
}

TEST(Elementwise, BinaryOperatorsEqualNaiveLoops) {
  using F = std::function<double(double, double)>;
  const std::vector<std::pair<std::string, F>> functions = {
      {"Add", [](double x, double y) { return x + y; }},
      {"Subtract", [](double x, double y) { return x - y; }},
      {"Multiply", [](double x, double y) { return x * y; }},
      {"Divide", [](double x, double y) { return x / y; }},
      {"Power", [](double x, double y) { return std::pow(x, y); }},
      {"Maximum", [](double x, double y) { return std::max(x, y); }},
      {"Minimum", [](double x, double y) { return std::min(x, y); }},
      {"Mod", [](double x, double y) { return std::fmod(x, y); }},
      {"FloorMod", [](double x, double y) { return x - y * std::floor(x / y); }},
      {"SquaredDifference", [](double x, double y) { return (x - y) * (x - y); }},
      {"Equal", [](double x, double y) { return x == y; }},
      {"NotEqual", [](double x, double y) { return x != y; }},
      {"Less", [](double x, double y) { return x < y; }},
      {"LessEqual", [](double x, double y) { return x <= y; }},
      {"Greater", [](double x, double y) { return x > y; }},
      {"GreaterEqual", [](double x, double y) { return x >= y; }}};
  Random random(1);
  for (int trial = 0; trial < 40; ++trial) {
    Shape full;
    for (int64_t i = random.Int(0, 4); i > 0; --i) full.push_back(random.Int(1, 5));
    const Shape shape_a = RandomPart(random, full), shape_b = RandomPart(random, full);
    const Shape out_shape = *BroadcastShapes(shape_a, shape_b);
    for (const auto& [op, function] : functions) {
      // Small whole numbers: equalities happen, and every function is exact or nearly so.
      const Tensor a = *Convert(random.Ints(shape_a, 1, 6), DType::kF32);
      const Tensor b = *Convert(random.Ints(shape_b, 1, 4), DType::kF32);
      const Tensor out = RunOne({op, {a, b}});
      ASSERT_EQ(out.shape(), out_shape);
      const std::vector<float> got = Floats(out);
      for (size_t i = 0; i < got.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i);
        const double expected =
            function(Broadcasted<float>(a, out_shape, at), Broadcasted<float>(b, out_shape, at));
        ASSERT_NEAR(got[i], expected, 1e-4 * std::max(1.0, std::fabs(expected))) << op;
      }
    }
  }
}

TEST(Elementwise, IntegerSemantics) {
  const auto run = [](const std::string& op, int64_t x, int64_t y, DType dtype = DType::kI64) {
    return Integers(
        RunOne({op, {*Convert(I64({1}, {x}), dtype), *Convert(I64({1}, {y}), dtype)}}))[0];
  };
  EXPECT_EQ(run("Divide", -7, 2), -4);  // rounds down, as m_pythondiv says by default
  EXPECT_EQ(
      Integers(RunOne({"Divide", {I64({1}, {-7}), I64({1}, {2})}, {{"m_pythondiv", false}}}))[0],
      -3);
  EXPECT_EQ(run("Mod", -7, 3), -1);
  EXPECT_EQ(run("FloorMod", -7, 3), 2);
  EXPECT_EQ(run("FloorMod", 7, -3), -2);
  EXPECT_EQ(run("Power", 3, 4), 81);
  EXPECT_EQ(run("Power", -1, -3), -1);
  EXPECT_EQ(run("Power", 2, -1), 0);
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(run("Divide", kLowest, -1), kLowest);
  EXPECT_EQ(run("Mod", kLowest, -1), 0);
  EXPECT_EQ(run("Add", std::numeric_limits<int32_t>::max(), 1, DType::kI32),
            std::numeric_limits<int32_t>::min());
  for (const char* op : {"Divide", "Mod", "FloorMod"}) {
    EXPECT_THAT(ErrorOf({op, {I64({2}, {1, 2}), I64({2}, {1, 0})}}),
                HasSubstr("divisor, element 1 of [2]: division by zero"));
  }
}

TEST(Elementwise, SquaresAreProducts) {
  Random random(3);
  const Tensor x = random.Floats({5, 37}, -1e20f, 1e20f);
  const Tensor nonsense = F32({3}, {-INFINITY, NAN, -0.0f});
  for (const Tensor& of : {x, nonsense}) {
    EXPECT_TRUE(SameBits(RunOne({"Power", {of, F32({}, {2})}}), RunOne({"Multiply", {of, of}})));
    EXPECT_TRUE(SameBits(RunOne({"Power", {of, F32({1}, {2})}}), RunOne({"Multiply", {of, of}})));
  }
}

TEST(Elementwise, LogicAndSelect) {
  const Tensor a = *Convert(I64({4}, {0, 0, 1, 1}), DType::kBool);
  const Tensor b = *Convert(I64({4}, {0, 1, 0, 1}), DType::kBool);
  EXPECT_THAT(Integers(RunOne({"LogicalAnd", {a, b}})), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(Integers(RunOne({"LogicalOr", {a, b}})), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(Integers(RunOne({"LogicalXor", {a, b}})), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(Integers(RunOne({"LogicalNot", {a}})), ElementsAre(1, 1, 0, 0));
  const Tensor chosen = RunOne({"Select", {a, I64({2, 1}, {10, 20}), Tensor::Scalar<int64_t>(-1)}});
  EXPECT_EQ(chosen.shape(), Shape({2, 4}));
  EXPECT_THAT(Integers(chosen), ElementsAre(-1, -1, 10, 10, -1, -1, 20, 20));
  EXPECT_THAT(Floats(RunOne({"Select",
                             {a, *Convert(F32({1}, {2}), DType::kF16),
                              *Convert(F32({4}, {1, 2, 3, 4}), DType::kF16)}})),
              ElementsAre(1, 2, 2, 2));
}

TEST(Elementwise, Unary) {
  Random random(2);
  const Tensor x = random.Floats({3, 37}, 0.1f, 5);
  const std::vector<std::pair<std::string, double (*)(double)>> functions = {
      {"Sqrt", [](double v) { return std::sqrt(v); }},
      {"Exp", [](double v) { return std::exp(v); }},
      {"Log", [](double v) { return std::log(v); }},
      {"Abs", [](double v) { return std::fabs(v); }},
      {"Negative", [](double v) { return -v; }},
      {"Floor", [](double v) { return std::floor(v); }},
      {"Sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"Tanh", [](double v) { return std::tanh(v); }},
      {"ReLU", [](double v) { return std::max(v, 0.0); }}};
  for (const Tensor& input : {x, random.Floats({5}, -3, 3)}) {
    for (const auto& [op, function] : functions) {
      const std::vector<float> out = Floats(RunOne({op, {input}}));
      for (size_t i = 0; i < out.size(); ++i) {
        const double expected = function(input.data<float>()[i]);
        if (!std::isnan(expected)) {
          EXPECT_NEAR(out[i], expected, 3e-7 * std::max(1.0, std::fabs(expected))) << op;
        }
      }
    }
  }
  EXPECT_THAT(Integers(RunOne({"Abs", {I64({2}, {-3, 4})}})), ElementsAre(3, 4));
  EXPECT_THAT(Floats(RunOne({"Clamp", {F32({3}, {-2, 0.25f, 2})}, {{"min", -1.0}, {"max", 1.0}}})),
              ElementsAre(-1, 0.25f, 1));
  EXPECT_THAT(Integers(RunOne({"Clamp", {I64({3}, {-9, 1, 9})}, {{"min", -1.5}, {"max", 2.5}}})),
              ElementsAre(-1, 1, 2));
  EXPECT_THAT(Integers(RunOne({"Clamp", {I64({1}, {5})}, {{"min", 0.0}, {"max", 1e30}}})),
              ElementsAre(5));
  EXPECT_THAT(ErrorOf({"Clamp", {x}, {{"min", 2.0}, {"max", 1.0}}}), HasSubstr("min 2"));
}

TEST(Elementwise, Convert) {
  const Tensor x = F32({3}, {-1.75f, 0, 300.5f});
  const auto to = [&](const std::string& type) {
    return RunOne({"Convert", {x}, {{"destination_type", type}}});
  };
  EXPECT_THAT(Integers(to("i32")), ElementsAre(-1, 0, 300));
  EXPECT_THAT(Integers(to("boolean")), ElementsAre(1, 0, 1));
  EXPECT_EQ(to("f16").dtype(), DType::kF16);
  EXPECT_THAT(Floats(to("bf16")), ElementsAre(-1.75f, 0, 300));
  EXPECT_TRUE(SameBits(to("f32"), x));
  EXPECT_THAT(ErrorOf({"Convert", {x}, {{"destination_type", std::string("f7")}}}),
              HasSubstr("destination_type"));
}

TEST(Elementwise, Errors) {
  const Tensor x = F32({2}, {1, 2});
  EXPECT_THAT(ErrorOf({"Add", {x, F32({3}, {1, 2, 3})}}),
              HasSubstr("[2] and [3] do not broadcast"));
  EXPECT_THAT(ErrorOf({"Add", {x, I64({2}, {1, 2})}}),
              HasSubstr("f32 and i64 of the inputs differ"));
  const Tensor flags = *Convert(x, DType::kBool);
  EXPECT_THAT(ErrorOf({"Add", {flags, flags}}), HasSubstr("boolean is not supported, only f32"));
  EXPECT_THAT(ErrorOf({"Add", {x, x}, {{"auto_broadcast", std::string("pdpd")}}}),
              HasSubstr("'pdpd' is not supported"));
  EXPECT_THAT(
      ErrorOf({"Add", {x, Tensor::Scalar(1.0f)}, {{"auto_broadcast", std::string("none")}}}),
      HasSubstr("auto_broadcast is 'none'"));
  EXPECT_THAT(ErrorOf({"Add", {x}}), HasSubstr("has 1 inputs, expected 2"));
  EXPECT_THAT(ErrorOf({"Add", {x, Tensor()}}), HasSubstr("input 1 is required"));
  EXPECT_THAT(ErrorOf({"LogicalAnd", {x, x}}), HasSubstr("only boolean"));
  EXPECT_THAT(ErrorOf({"Tanh", {flags}}), HasSubstr("boolean"));
}

// What a chain computes is tested where graphs get theirs (tests/ops/compile).
TEST(ElementwiseChain, RefusesWhatCannotBe) {
  using Names = std::vector<std::string>;
  using Numbers = std::vector<int64_t>;
  const auto error = [](const Names& functions, const Numbers& operands, const Numbers& windows,
                        const Numbers& results) {
    return ErrorOf({"ElementwiseChain",
                    {F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({2, 1}, {1, 2})},
                    {{"functions", functions},
                     {"operands", operands},
                     {"windows", windows},
                     {"results", results}},
                    static_cast<int>(results.size())});
  };
  const Names names = {"Tanh", "Add"};
  const Numbers whole = {0, -1, 0, -1};
  EXPECT_EQ(error(names, {0, -1, 2, 1}, whole, {1, 0}), "");
  EXPECT_EQ(error(names, {0, -1, 2, 1}, {1, 2, 0, -1}, {0}), "");
  EXPECT_THAT(error({"Tanh", "Sinh"}, {0, -1, 2, 1}, whole, {1}), HasSubstr("'Sinh'"));
  EXPECT_THAT(error(names, {0, -1, 3, 1}, whole, {1}), HasSubstr("operands: 3 and 1"));
  EXPECT_THAT(error(names, {0, 1, 2, 1}, whole, {1}), HasSubstr("operands: 0 and 1"));
  EXPECT_THAT(error(names, {0, -1, 2, -1}, whole, {1}), HasSubstr("operands: 2 and -1"));
  EXPECT_THAT(error(names, {0, -1}, whole, {1}), HasSubstr("two entries"));
  EXPECT_THAT(error(names, {0, -1, 2, 1}, {2, 2, 0, -1}, {1}), HasSubstr("are not in"));
  EXPECT_THAT(error(names, {0, -1, 2, 1}, {1, -1, 0, -1}, {1}), HasSubstr("windows"));
  EXPECT_THAT(error(names, {0, -1, 2, 1}, whole, {1, 1}), HasSubstr("named twice"));
  EXPECT_THAT(error(names, {0, -1, 2, 1}, whole, {2}), HasSubstr("results: 2"));
}

}  // namespace
}  // namespace beamwright::ops
