// Every element type that an operator's document allows, against arithmetic in wider numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ops/kernels/types.h"
#include "tests/ops/kernels/index_tensors.h"
#include "tests/ops/kernels/run_operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Of(DType dtype, std::vector<double> values) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  return *Convert(Tensor::Of<double>(shape, values), dtype);
}
std::vector<double> Doubles(const Tensor& tensor) {
  const Tensor wide = *Convert(tensor, DType::kF64);
  return {wide.data<double>(), wide.data<double>() + wide.num_elements()};
}

bool IsUnsigned(DType dtype) {
  return dtype == DType::kU64 || dtype == DType::kU32 || dtype == DType::kU16 ||
         dtype == DType::kU8;
}

TEST(ElementTypes, ArithmeticAndComparison) {
  using F = std::function<double(double, double)>;
  const std::vector<std::pair<std::string, F>> functions = {
      {"Add", [](double x, double y) { return x + y; }},
      {"Subtract", [](double x, double y) { return x - y; }},
      {"Multiply", [](double x, double y) { return x * y; }},
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
  for (const DType dtype : kNumericTypes) {
    for (const auto& [op, function] : functions) {
      SCOPED_TRACE(op + " on " + std::string(Name(dtype)));
      const bool natural = IsUnsigned(dtype);
      const std::vector<double> x = {7, 2, 5, natural ? 9.0 : -7};
      const std::vector<double> y = {2, 2, 3, 2};
      const std::vector<double> got = Doubles(RunOne({op, {Of(dtype, x), Of(dtype, y)}}));
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], function(x[i], y[i])) << i;
    }
    const std::vector<double> quotient =
        Doubles(RunOne({"Divide", {Of(dtype, {7, 9}), Of(dtype, {2, 3})}}));
    EXPECT_THAT(quotient, ElementsAre(IsFloat(dtype) ? 3.5 : 3, 3)) << Name(dtype);
  }
}

// Signed minimum and -1, and products beyond the promoted int: the sanitizer builds trap on what
// would be undefined.
template <typename T>
void CheckWrapping() {
  constexpr T kLeast = std::numeric_limits<T>::min();
  constexpr T kMost = std::numeric_limits<T>::max();
  const auto run = [](const std::string& op, T x, T y) {
    return *RunOne({op, {Tensor::Scalar(x), Tensor::Scalar(y)}}).template data<T>();
  };
  SCOPED_TRACE(Name(DTypeOf<T>::value));
  EXPECT_EQ(run("Add", kMost, 1), kLeast);
  EXPECT_EQ(run("Subtract", kLeast, 1), kMost);
  EXPECT_EQ(run("Multiply", kMost, kMost), T{1});
  EXPECT_EQ(run("Power", kMost, 2), T{1});
  EXPECT_EQ(run("SquaredDifference", kMost, 0), T{1});
  if constexpr (std::is_signed_v<T>) {
    EXPECT_EQ(run("Divide", kLeast, -1), kLeast);
    EXPECT_EQ(run("Mod", kLeast, -1), 0);
    EXPECT_EQ(run("FloorMod", kLeast, -1), 0);
    EXPECT_EQ(*RunOne({"Abs", {Tensor::Scalar(kLeast)}}).template data<T>(), kLeast);
    EXPECT_EQ(*RunOne({"Negative", {Tensor::Scalar(kLeast)}}).template data<T>(), kLeast);
    EXPECT_EQ(run("Divide", -7, 2), -4);
  } else {
    // The largest value is not -1.
    EXPECT_EQ(run("Divide", kMost, kMost), T{1});
    EXPECT_EQ(run("Mod", kMost - 1, kMost), static_cast<T>(kMost - 1));
  }
  for (const char* op : {"Divide", "Mod", "FloorMod"}) {
    EXPECT_THAT(ErrorOf({op, {Tensor::Scalar(T{1}), Tensor::Of<T>({2}, std::vector<T>{3, 0})}}),
                HasSubstr("divisor, element 1 of [2]: division by zero"));
  }
}

TEST(ElementTypes, IntegersWrapAndNeverTrap) {
  CheckWrapping<int8_t>();
  CheckWrapping<int16_t>();
  CheckWrapping<int32_t>();
  CheckWrapping<int64_t>();
  CheckWrapping<uint8_t>();
  CheckWrapping<uint16_t>();
  CheckWrapping<uint32_t>();
  CheckWrapping<uint64_t>();
}

// 2048 + 1 is a tie in f16; what is rounded after each step loses the ones, what is rounded once
// keeps three of them.
TEST(ElementTypes, HalvesAreRoundedOncePerOperator) {
  const Tensor x = Of(DType::kF16, {2048, 1, 1, 1});
  EXPECT_THAT(Doubles(RunOne({"ReduceSum", {x, I64({1}, {0})}})), ElementsAre(2052));
  const Tensor b = Of(DType::kBF16, {256, 1, 1, 1});
  EXPECT_THAT(Doubles(RunOne({"ReduceSum", {b, I64({1}, {0})}})), ElementsAre(260));
  EXPECT_THAT(Doubles(RunOne({"Add", {x, Of(DType::kF16, {1, 1, 1, 1})}})),
              ElementsAre(2048, 2, 2, 2));
  EXPECT_EQ(RunOne({"Tanh", {x}}).dtype(), DType::kF16);
  // (1 + 2^-10)^2 - 1: the square, rounded, would lose its last bit.
  const Tensor near = Of(DType::kF16, {1 + std::ldexp(1, -10)});
  EXPECT_THAT(Doubles(RunOne({"SquaredDifference", {near, Of(DType::kF16, {2})}})),
              ElementsAre(static_cast<double>(
                  ToFloat(ToHalf(static_cast<float>(std::pow(1 - std::ldexp(1, -10), 2)))))));
}

TEST(ElementTypes, UnaryOnEveryType) {
  for (const DType dtype : kNumericTypes) {
    SCOPED_TRACE(Name(dtype));
    const bool natural = IsUnsigned(dtype);
    const Tensor x = Of(dtype, {natural ? 3.0 : -3, 0, 2});
    EXPECT_THAT(Doubles(RunOne({"Abs", {x}})), ElementsAre(3, 0, 2));
    EXPECT_THAT(Doubles(RunOne({"Sign", {x}})), ElementsAre(natural ? 1 : -1, 0, 1));
    EXPECT_THAT(Doubles(RunOne({"ReLU", {x}})), ElementsAre(natural ? 3 : 0, 0, 2));
    const double least = IsFloat(dtype) ? 0.5 : 1;
    EXPECT_THAT(Doubles(RunOne({"Clamp", {x}, {{"min", 0.5}, {"max", 2.5}}})),
                ElementsAre(natural ? 2 : least, least, 2));
    for (const char* op : {"Floor", "Ceiling", "Round"}) {
      EXPECT_TRUE(SameBits(RunOne({op, {x}}), x)) << op;
    }
    // Of integers: rounded to nearest.
    EXPECT_NEAR(Doubles(RunOne({"Exp", {Of(dtype, {1})}}))[0], IsFloat(dtype) ? std::exp(1) : 3,
                0.01);
    EXPECT_NEAR(Doubles(RunOne({"Sqrt", {Of(dtype, {8})}}))[0], IsFloat(dtype) ? std::sqrt(8) : 3,
                0.02);
  }
  const Tensor x = F32({8}, {-4.5f, -1.9f, -1.5f, 0.5f, 0.9f, 1.5f, 2.3f, 2.5f});
  EXPECT_THAT(Floats(RunOne({"Round", {x}})), ElementsAre(-4, -2, -2, 0, 1, 2, 2, 2));
  EXPECT_THAT(Floats(RunOne({"Round", {x}, {{"mode", Text("half_away_from_zero")}}})),
              ElementsAre(-5, -2, -2, 1, 1, 2, 2, 3));
  EXPECT_THAT(ErrorOf({"Round", {x}, {{"mode", Text("down")}}}), HasSubstr("mode: 'down'"));
  EXPECT_TRUE(std::isnan(Floats(RunOne({"Sign", {F32({1}, {NAN})}}))[0]));
}

TEST(ElementTypes, BitsAndClasses) {
  for (const DType dtype : kIntegerTypes) {
    const Tensor x = Of(dtype, {12, 5}), y = Of(dtype, {10, 3});
    EXPECT_THAT(Doubles(RunOne({"BitwiseAnd", {x, y}})), ElementsAre(8, 1)) << Name(dtype);
    EXPECT_THAT(Doubles(RunOne({"BitwiseOr", {x, y}})), ElementsAre(14, 7)) << Name(dtype);
    EXPECT_THAT(Doubles(RunOne({"BitwiseXor", {x, y}})), ElementsAre(6, 6)) << Name(dtype);
    const Tensor inverse = RunOne({"BitwiseNot", {x}});
    EXPECT_THAT(Doubles(RunOne({"BitwiseAnd", {inverse, x}})), ElementsAre(0, 0)) << Name(dtype);
  }
  const Tensor flags = Of(DType::kBool, {1, 0});
  EXPECT_THAT(Doubles(RunOne({"BitwiseNot", {flags}})), ElementsAre(0, 1));
  EXPECT_THAT(ErrorOf({"BitwiseAnd", {F32({1}, {1}), F32({1}, {1})}}), HasSubstr("f32"));
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kFloatTypes) {
    const Tensor x = Of(dtype, {1, inf, -inf, NAN});
    EXPECT_THAT(Doubles(RunOne({"IsNaN", {x}})), ElementsAre(0, 0, 0, 1));
    EXPECT_THAT(Doubles(RunOne({"IsInf", {x}})), ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(Doubles(RunOne({"IsInf", {x}, {{"detect_negative", false}}})),
                ElementsAre(0, 1, 0, 0));
    EXPECT_THAT(Doubles(RunOne({"IsFinite", {x}})), ElementsAre(1, 0, 0, 0));
  }
  EXPECT_THAT(ErrorOf({"IsNaN", {I64({1}, {1})}}), HasSubstr("i64 is not supported"));
}

// Every pair of types. Whole numbers that all types hold stay what they are.
TEST(ElementTypes, ConvertBetweenEveryPair) {
  for (const DType from : kNumericAndBoolTypes) {
    for (const DType to : kNumericAndBoolTypes) {
      const bool flags = from == DType::kBool || to == DType::kBool;
      const Tensor x = Of(from, {0, 1, 100});
      const Tensor y = RunOne({"Convert", {x}, {{"destination_type", std::string(Name(to))}}});
      ASSERT_EQ(y.dtype(), to);
      EXPECT_THAT(Doubles(y), ElementsAre(0, 1, flags ? 1 : 100)) << Name(from) << Name(to);
      EXPECT_TRUE(SameBits(RunOne({"ConvertLike", {x, Of(to, {})}}), y));
    }
  }
  const auto to = [](const Tensor& x, const std::string& type) {
    return RunOne({"Convert", {x}, {{"destination_type", type}}});
  };
  // Floats truncate and saturate, integers wrap.
  const Tensor wild = Of(DType::kF64, {-1.9, 300.7, 1e30, -1e30, NAN});
  EXPECT_THAT(Doubles(to(wild, "u8")), ElementsAre(0, 255, 255, 0, 0));
  EXPECT_THAT(Doubles(to(wild, "i8")), ElementsAre(-1, 127, 127, -128, 0));
  EXPECT_THAT(Integers(to(wild, "i64")), ElementsAre(-1, 300, std::numeric_limits<int64_t>::max(),
                                                     std::numeric_limits<int64_t>::min(), 0));
  EXPECT_THAT(Doubles(to(I64({3}, {-1, 256, 511}), "u8")), ElementsAre(255, 0, 255));
  EXPECT_EQ(*to(I64({1}, {-1}), "u64").data<uint64_t>(), std::numeric_limits<uint64_t>::max());
  // One rounding: a one above a tie of f32 that f64 cannot hold.
  EXPECT_EQ(*to(I64({1}, {(int64_t{1} << 60) + (int64_t{1} << 36) + 1}), "f32").data<float>(),
            std::ldexp(1.0f, 60) + std::ldexp(1.0f, 37));
  // f64 to f16 through f32 would round 1 + 2^-11 + 2^-40 to the tie, and then down.
  EXPECT_EQ(Doubles(to(Of(DType::kF64, {1 + std::ldexp(1, -11) + std::ldexp(1, -40)}), "f16"))[0],
            1 + std::ldexp(1, -10));
  EXPECT_EQ(Doubles(to(Of(DType::kF64, {1 + std::ldexp(1, -11) - std::ldexp(1, -40)}), "f16"))[0],
            1);
}

TEST(ElementTypes, SoftmaxAndReductions) {
  for (const DType dtype : kFloatTypes) {
    const std::vector<double> soft =
        Doubles(RunOne({"SoftMax", {Of(dtype, {0, std::log(3)})}, {{"axis", int64_t{0}}}}));
    EXPECT_NEAR(soft[0], 0.25, 2e-3) << Name(dtype);
    EXPECT_NEAR(soft[1], 0.75, 4e-3) << Name(dtype);
  }
  for (const DType dtype : kNumericTypes) {
    SCOPED_TRACE(Name(dtype));
    const Tensor x = Of(dtype, {3, 4, 5});
    const auto reduce = [&](const std::string& op) {
      return Doubles(RunOne({op, {x, I64({1}, {0})}}))[0];
    };
    EXPECT_EQ(reduce("ReduceSum"), 12);
    EXPECT_EQ(reduce("ReduceMean"), 4);
    EXPECT_EQ(reduce("ReduceMax"), 5);
    EXPECT_EQ(reduce("ReduceMin"), 3);
    EXPECT_EQ(reduce("ReduceProd"), 60);
    EXPECT_EQ(reduce("ReduceL1"), 12);
    EXPECT_NEAR(reduce("ReduceL2"), IsFloat(dtype) ? std::sqrt(50) : 7, 0.03);
  }
  // The sum overflows i8, the mean does not.
  EXPECT_THAT(Doubles(RunOne({"ReduceMean", {Of(DType::kI8, {100, 100, 100}), I64({1}, {0})}})),
              ElementsAre(100));
  EXPECT_THAT(Doubles(RunOne({"ReduceL1", {Of(DType::kI8, {-100, 3}), I64({1}, {0})}})),
              ElementsAre(103));
}

// What moves elements takes every type.
TEST(ElementTypes, Movement) {
  for (const DType dtype : kNumericAndBoolTypes) {
    SCOPED_TRACE(Name(dtype));
    const Tensor x = Of(dtype, {0, 1, 1, 0});
    const Tensor axis = Tensor::Scalar<int64_t>(0);
    const auto values = [](const Call& call) { return Doubles(RunOne(call)); };
    EXPECT_THAT(values({"Gather", {x, I64({2}, {-1, 1}), axis}}), ElementsAre(0, 1));
    EXPECT_THAT(values({"GatherElements", {x, I64({2}, {3, 2})}, {{"axis", int64_t{0}}}}),
                ElementsAre(0, 1));
    EXPECT_THAT(values({"GatherND", {x, I64({1, 1}, {2})}}), ElementsAre(1));
    EXPECT_THAT(values({"ScatterUpdate", {x, I64({1}, {0}), Of(dtype, {1}), axis}}),
                ElementsAre(1, 1, 1, 0));
    EXPECT_THAT(values({"ScatterElementsUpdate", {x, I64({1}, {-1}), Of(dtype, {1}), axis}}),
                ElementsAre(0, 1, 1, 1));
    EXPECT_THAT(values({"ScatterNDUpdate", {x, I64({1, 1}, {3}), Of(dtype, {1})}}),
                ElementsAre(0, 1, 1, 1));
    EXPECT_THAT(values({"Reverse", {x, I64({1}, {0})}, {{"mode", Text("index")}}}),
                ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(values({"Pad", {x, I64({1}, {1}), I64({1}, {-2})}, {{"pad_mode", Text("edge")}}}),
                ElementsAre(0, 0, 1));
    EXPECT_THAT(values({"OneHot",
                        {I64({1}, {1}), Tensor::Scalar<int64_t>(2), *Convert(I64({}, {1}), dtype),
                         *Convert(I64({}, {0}), dtype)},
                        {{"axis", int64_t{-1}}}}),
                ElementsAre(0, 1));
    EXPECT_THAT(values({"NonZero", {x}}), ElementsAre(1, 2));
    EXPECT_THAT(values({"Concat", {x, x}, {{"axis", int64_t{0}}}}),
                ElementsAre(0, 1, 1, 0, 0, 1, 1, 0));
    EXPECT_THAT(
        values({"Select", {Of(DType::kBool, {1, 0}), Of(dtype, {1, 1}), Of(dtype, {0, 0})}}),
        ElementsAre(1, 0));
    EXPECT_THAT(Integers(RunOne({"ShapeOf", {x}, {{"output_type", Text("i32")}}})), ElementsAre(4));
  }
  for (const DType dtype : kNumericTypes) {
    SCOPED_TRACE(Name(dtype));
    const std::string type(Name(dtype));
    EXPECT_THAT(Doubles(RunOne({"Range",
                                {*Convert(I64({}, {1}), dtype), *Convert(I64({}, {8}), DType::kI32),
                                 *Convert(I64({}, {3}), DType::kF32)},
                                {{"output_type", type}}})),
                ElementsAre(1, 4, 7));
    EXPECT_THAT(Doubles(RunOne(
                    {"Eye", {I64({}, {2}), I64({}, {3}), I64({1}, {1})}, {{"output_type", type}}})),
                ElementsAre(0, 1, 0, 0, 0, 1));
  }
  // Every integer type may index.
  for (const DType dtype : kIntegerTypes) {
    EXPECT_THAT(
        Integers(RunOne({"Gather", {I64({3}, {5, 6, 7}), Of(dtype, {2, 0}), Of(dtype, {0})}})),
        ElementsAre(7, 5));
  }
}

TEST(BitCast, KeepsBitsAndRefusesOtherWidths) {
  const auto to = [](const char* type) {
    return std::vector<std::pair<std::string, AttributeValue>>{
        {"destination_type", std::string(type)}};
  };
  const Tensor bits = RunOne({"BitCast", {F32({2}, {1, -0.0f})}, to("i32")});
  EXPECT_EQ(bits.data<int32_t>()[0], 0x3f800000);
  EXPECT_EQ(bits.data<int32_t>()[1], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(RunOne({"BitCast", {F32({0, 2}, {})}, to("u32")}).shape(), Shape({0, 2}));
  EXPECT_THAT(ErrorOf({"BitCast", {F32({1}, {1})}, to("f64")}), HasSubstr("a number of 32 bits"));
  const Tensor byte = Tensor::Of<uint8_t>({1}, std::vector<uint8_t>{2});
  EXPECT_THAT(ErrorOf({"BitCast", {byte}, to("boolean")}), HasSubstr("a number of 8 bits"));
}

}  // namespace

// 16-bit floats through kernels that compute in f32: the f32 result, rounded once.

namespace {

using ::testing::HasSubstr;

struct NarrowCell {
  const char* op;
  int64_t gates;
  int states;  // H, or H and C
  bool linear;
};

// X, H[, C], W, R, B of a cell with hidden size 5 over inputs of size 3.
Call CellCall(const NarrowCell& c, Random& random) {
  Call call{c.op, {random.Floats({4, 3})}, {{"hidden_size", int64_t{5}}}, c.states};
  for (int i = 0; i < c.states; ++i) call.inputs.push_back(random.Floats({4, 5}));
  call.inputs.push_back(random.Floats({c.gates * 5, 3}));
  call.inputs.push_back(random.Floats({c.gates * 5, 5}));
  call.inputs.push_back(random.Floats({(c.gates + (c.linear ? 1 : 0)) * 5}));
  if (c.linear) call.attributes.emplace_back("linear_before_reset", true);
  return call;
}

TEST(Widened, CellsRoundTheF32Result) {
  Random random(1);
  for (const NarrowCell& c : std::vector<NarrowCell>{{"LSTMCell", 4, 2, false},
                                                     {"GRUCell", 3, 1, false},
                                                     {"GRUCell", 3, 1, true},
                                                     {"RNNCell", 1, 1, false}}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      for (const bool constant : {false, true}) {
        Call narrow = CellCall(c, random);
        if (constant) {
          for (size_t i = narrow.inputs.size() - 3; i < narrow.inputs.size(); ++i) {
            narrow.constants.push_back(i);
          }
        }
        Call wide = narrow;
        for (size_t i = 0; i < narrow.inputs.size(); ++i) {
          narrow.inputs[i] = *Convert(narrow.inputs[i], dtype);
          wide.inputs[i] = *Convert(narrow.inputs[i], DType::kF32);
        }
        const std::vector<Tensor> outputs = *RunAll(narrow), expected = *RunAll(wide);
        for (size_t i = 0; i < outputs.size(); ++i) {
          EXPECT_TRUE(SameBits(outputs[i], *Convert(expected[i], dtype))) << c.op;
        }
      }
    }
  }
}

TEST(Widened, CellsRefuseMixedTypes) {
  Random random(2);
  Call call = CellCall({"RNNCell", 1, 1, false}, random);
  call.inputs[2] = *Convert(call.inputs[2], DType::kF16);
  EXPECT_THAT(ErrorOf(call), HasSubstr("W: element type f16 is not that of X, f32"));
}

// What a kernel has packed, a run may leave out: the weights of products and of cells, of any type.
TEST(Widened, PackedInputsNeedNotBeGiven) {
  Random random(3);
  std::vector<Call> calls = {CellCall({"GRUCell", 3, 1, false}, random),
                             CellCall({"LSTMCell", 4, 2, false}, random),
                             {"MatMul", {random.Floats({2, 3}), random.Floats({3, 4})}}};
  // The older form: W and R side by side.
  calls.push_back({"LSTMCell",
                   {random.Floats({4, 3}), random.Floats({4, 5}), random.Floats({4, 5}),
                    random.Floats({20, 8}), random.Floats({20})},
                   {{"hidden_size", int64_t{5}}, {"weights_joined", true}},
                   2});
  const std::vector<std::vector<size_t>> weights = {{2, 3}, {3, 4}, {1}, {3}};
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kF16}) {
      Call call = calls[i];
      for (Tensor& input : call.inputs) input = *Convert(input, dtype);
      call.constants = weights[i];
      const std::vector<Tensor> expected = *RunAll(call);
      const Operator* op = TestOperators().Find(call.op);
      const Node node = MakeNode(call);
      std::vector<InputInfo> infos;
      std::vector<const Tensor*> inputs;
      const Tensor absent;
      for (const Tensor& input : call.inputs) {
        infos.push_back({input.dtype(), PartialShape(input.shape()), nullptr});
        inputs.push_back(&input);
      }
      for (const size_t weight : weights[i]) infos[weight].value = &call.inputs[weight];
      const std::unique_ptr<Kernel> kernel = *op->make({node, infos, TestOperators()});
      for (size_t input = 0; input < inputs.size(); ++input) {
        const bool is_weight = infos[input].value != nullptr;
        EXPECT_EQ(kernel->NeedsInput(input), !is_weight) << call.op << " " << input;
        if (is_weight) inputs[input] = &absent;
      }
      std::vector<Tensor> outputs(expected.size());
      ASSERT_TRUE(kernel->Run({}, inputs, absl::MakeSpan(outputs)).ok());
      for (size_t output = 0; output < outputs.size(); ++output) {
        EXPECT_TRUE(SameBits(outputs[output], expected[output])) << call.op;
      }
    }
  }
}

}  // namespace

}  // namespace beamwright::ops
