// Arithmetic, comparison, logic, functions of one element, and conversions between types.
#include <limits>

#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
namespace {

// f(f(a, b), c)...; one input stands for itself.
ValueId FoldLeft(OnnxNode& n, const char* op) {
  ValueId result = n.In(0);
  for (int i = 1; i < n.num_inputs(); ++i) {
    result = n.Add(op, {result, n.In(i)});
  }
  return result;
}

void Sum(OnnxNode& n) { n.Out(0, FoldLeft(n, "Add")); }
void Max(OnnxNode& n) { n.Out(0, FoldLeft(n, "Maximum")); }
void Min(OnnxNode& n) { n.Out(0, FoldLeft(n, "Minimum")); }

void Mean(OnnxNode& n) {
  const ValueId sum = FoldLeft(n, "Add");
  n.Out(0, n.num_inputs() == 1 ? sum : n.Add("Divide", {sum, n.Like(n.num_inputs(), sum)}));
}

// Integers divide towards zero.
void Div(OnnxNode& n) { n.Out(0, n.Add("Divide", n.inputs(), {{"m_pythondiv", false}})); }

// fmod 0: the sign of the divisor, as Python's %; 1: that of the dividend, as C's fmod.
void Mod(OnnxNode& n) { n.Out(0, n.Add(n.Flag("fmod", false) ? "Mod" : "FloorMod", n.inputs())); }

// The result has the base's type, the exponent may have another.
void Pow(OnnxNode& n) {
  const ValueId base = n.In(0);
  const ValueId exponent = n.In(1);
  const DType base_type = n.Type(base);
  const DType exponent_type = n.Type(exponent);
  if (!IsFloat(base_type) && IsFloat(exponent_type)) {
    const ValueId power = n.Add("Power", {ConvertTo(n, base, exponent_type), exponent});
    n.Out(0, ConvertTo(n, power, base_type));
  } else {
    n.Out(0, n.Add("Power", {base, ConvertTo(n, exponent, base_type)}));
  }
}

void Reciprocal(OnnxNode& n) { n.Out(0, n.Add("Divide", {n.Like(1, n.In(0)), n.In(0)})); }

void Round(OnnxNode& n) { n.Out(0, n.Add("Round", {n.In(0)}, {{"mode", "half_to_even"}})); }

void IsInf(OnnxNode& n) {
  n.Out(0, n.Add("IsInf", {n.In(0)},
                 {{"detect_negative", n.Flag("detect_negative", true)},
                  {"detect_positive", n.Flag("detect_positive", true)}}));
}

// A bound that is known at load, as a number; false if it is not.
bool KnownBound(OnnxNode& n, int input, double fallback, double& bound) {
  bound = fallback;
  if (!n.Has(input)) {
    return true;
  }
  const Tensor* tensor = n.Known(n.In(input));
  if (tensor == nullptr || tensor->num_elements() != 1) {
    return false;
  }
  const absl::StatusOr<std::vector<float>> value = ToFloat32(*tensor);
  if (!value.ok()) {
    return false;
  }
  bound = static_cast<double>(value->front());
  return true;
}

// Until opset 10 the bounds are attributes. Where the lower one is above the upper, the upper wins.
void Clip(OnnxNode& n) {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const ValueId x = n.In(0);
  double low = -kInfinity;
  double high = kInfinity;
  if (n.version() < 11) {
    low = n.Float("min", -kMost);
    high = n.Float("max", kMost);
    n.Out(0, n.Add("Clamp", {x}, {{"min", low}, {"max", high}}));
    return;
  }
  if (n.Type(x) == DType::kF32 && KnownBound(n, 1, low, low) && KnownBound(n, 2, high, high) &&
      low <= high) {
    n.Out(0, n.Add("Clamp", {x}, {{"min", low}, {"max", high}}));
    return;
  }
  const ValueId raised = n.Has(1) ? n.Add("Maximum", {x, n.In(1)}) : x;
  n.Out(0, n.Has(2) ? n.Add("Minimum", {raised, n.In(2)}) : raised);
}

void IgnoreFloat8(OnnxNode& n) {
  // They concern types that are not supported.
  if (n.version() >= 19) {
    n.Ignore("saturate");
  }
  if (n.version() >= 24) {
    n.Ignore("round_mode");
  }
}

void Cast(OnnxNode& n) {
  IgnoreFloat8(n);
  const absl::StatusOr<DType> dtype = OnnxType(n.Int("to", 0));
  if (!dtype.ok()) {
    n.builder().Fail(Annotate(dtype.status(), "attribute 'to'"));
    return;
  }
  n.Out(0, ConvertTo(n, n.In(0), *dtype));
}

void BitCast(OnnxNode& n) {
  const absl::StatusOr<DType> dtype = OnnxType(n.Int("to", 0));
  if (!dtype.ok()) {
    n.builder().Fail(Annotate(dtype.status(), "attribute 'to'"));
    return;
  }
  n.Out(0, n.Add("BitCast", {n.In(0)}, {{"destination_type", std::string(Name(*dtype))}}));
}

void CastLike(OnnxNode& n) {
  IgnoreFloat8(n);
  n.Out(0, ConvertTo(n, n.In(0), n.Type(n.In(1))));
}

}  // namespace

std::vector<OnnxOperator> OnnxElementwise() {
  return {
      {"Abs", {6, 13}, 1, 1, 1, "Abs"},
      {"Acos", {7, 22}, 1, 1, 1, "Acos"},
      {"Acosh", {9, 22}, 1, 1, 1, "Acosh"},
      {"Add", {7, 13, 14}, 2, 2, 1, "Add"},
      {"And", {7}, 2, 2, 1, "LogicalAnd"},
      {"Asin", {7, 22}, 1, 1, 1, "Asin"},
      {"Asinh", {9, 22}, 1, 1, 1, "Asinh"},
      {"Atan", {7, 22}, 1, 1, 1, "Atan"},
      {"Atanh", {9, 22}, 1, 1, 1, "Atanh"},
      {"BitCast", {26}, 1, 1, 1, "BitCast", BitCast},
      {"BitwiseAnd", {18}, 2, 2, 1, "BitwiseAnd"},
      {"BitwiseNot", {18}, 1, 1, 1, "BitwiseNot"},
      {"BitwiseOr", {18}, 2, 2, 1, "BitwiseOr"},
      {"BitwiseXor", {18}, 2, 2, 1, "BitwiseXor"},
      {"Cast", {6, 9, 13, 19, 21, 23, 24, 25, 28}, 1, 1, 1, "Convert", Cast},
      {"CastLike", {15, 19, 21, 23, 24, 25}, 2, 2, 1, "Convert", CastLike},
      {"Ceil", {6, 13}, 1, 1, 1, "Ceiling"},
      {"Clip", {6, 11, 12, 13}, 1, 3, 1, "Clamp, or Maximum and Minimum", Clip},
      {"Cos", {7, 22}, 1, 1, 1, "Cos"},
      {"Cosh", {9, 22}, 1, 1, 1, "Cosh"},
      {"Div", {7, 13, 14}, 2, 2, 1, "Divide", Div},
      {"Equal", {7, 11, 13, 19}, 2, 2, 1, "Equal"},
      {"Erf", {9, 13}, 1, 1, 1, "Erf"},
      {"Exp", {6, 13}, 1, 1, 1, "Exp"},
      {"Floor", {6, 13}, 1, 1, 1, "Floor"},
      {"Greater", {7, 9, 13}, 2, 2, 1, "Greater"},
      {"GreaterOrEqual", {12, 16}, 2, 2, 1, "GreaterEqual"},
      {"IsInf", {10, 20}, 1, 1, 1, "IsInf", IsInf},
      {"IsNaN", {9, 13, 20}, 1, 1, 1, "IsNaN"},
      {"Less", {7, 9, 13}, 2, 2, 1, "Less"},
      {"LessOrEqual", {12, 16}, 2, 2, 1, "LessEqual"},
      {"Log", {6, 13}, 1, 1, 1, "Log"},
      {"Max", {8, 12, 13}, 1, kAnyNumber, 1, "Maximum", Max},
      {"Mean", {8, 13}, 1, kAnyNumber, 1, "Add, Divide", Mean},
      {"Min", {8, 12, 13}, 1, kAnyNumber, 1, "Minimum", Min},
      {"Mod", {10, 13, 28}, 2, 2, 1, "FloorMod, Mod", Mod},
      {"Mul", {7, 13, 14}, 2, 2, 1, "Multiply"},
      {"Neg", {6, 13}, 1, 1, 1, "Negative"},
      {"Not", {1}, 1, 1, 1, "LogicalNot"},
      {"Or", {7}, 2, 2, 1, "LogicalOr"},
      {"Pow", {7, 12, 13, 15}, 2, 2, 1, "Power", Pow},
      {"Reciprocal", {6, 13}, 1, 1, 1, "Divide", Reciprocal},
      {"Round", {11, 22}, 1, 1, 1, "Round", Round},
      {"Sign", {9, 13}, 1, 1, 1, "Sign"},
      {"Sin", {7, 22}, 1, 1, 1, "Sin"},
      {"Sinh", {9, 22}, 1, 1, 1, "Sinh"},
      {"Sqrt", {6, 13}, 1, 1, 1, "Sqrt"},
      {"Sub", {7, 13, 14}, 2, 2, 1, "Subtract"},
      {"Sum", {8, 13}, 1, kAnyNumber, 1, "Add", Sum},
      {"Tan", {7, 22}, 1, 1, 1, "Tan"},
      {"Where", {9, 16}, 3, 3, 1, "Select"},
      {"Xor", {7}, 2, 2, 1, "LogicalXor"},
  };
}

}  // namespace beamwright::ops
