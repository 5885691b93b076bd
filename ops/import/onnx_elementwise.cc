// ONNX's functions of one element: arithmetic, comparison, logic, conversions, activations and
// softmaxes.
//
// A line of the tables with a fifth entry alone is an operator that has the same meaning here under
// the name in that entry. The others have a function that writes them as a few of our operators;
// the entry then lists these for the documentation. Constants of such an expansion have the type of
// x (OnnxNode::Like), so that no operand is widened on the way.
//
// Activated applies an activation by its name: operators of ONNX Runtime that hold one, such as
// FusedConv, give its name and numbers as attributes.
//
// An example of a line: {"Clip", {6, 11, 12, 13}, 1, 3, 1, "Clamp, or Maximum and Minimum", Clip}
// is the operator's name, the opsets that changed it, 1 to 3 inputs, one output, what it becomes,
// and the function that writes it.

#include <limits>

#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {

// Arithmetic, comparison, logic, functions of one element, and conversions between types.

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

// Activations and the softmaxes.

namespace {

constexpr double kLeakyAlpha = 0.01f;
constexpr double kSeluAlpha = 1.67326319217681884765625;
constexpr double kSeluGamma = 1.05070102214813232421875;
constexpr double kHardSigmoidAlpha = 0.2f;
constexpr double kHardSigmoidBeta = 0.5;

void Elu(OnnxNode& n) { n.Out(0, n.Add("Elu", {n.In(0)}, {{"alpha", n.Float("alpha", 1)}})); }

// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)): Elu of x / alpha, times alpha.
void Celu(OnnxNode& n) {
  const ValueId x = n.In(0);
  const ValueId alpha = n.Like(n.Float("alpha", 1), x);
  const ValueId elu = n.Add("Elu", {n.Add("Divide", {x, alpha})}, {{"alpha", 1.0}});
  n.Out(0, n.Add("Multiply", {elu, alpha}));
}

ValueId SeluOf(OnnxNode& n, ValueId x, double alpha, double gamma) {
  return n.Add("Selu", {x, n.Like(alpha, x), n.Like(gamma, x)});
}

void Selu(OnnxNode& n) {
  n.Out(0, SeluOf(n, n.In(0), n.Float("alpha", kSeluAlpha), n.Float("gamma", kSeluGamma)));
}

ValueId Leaky(OnnxNode& n, ValueId x, ValueId slope) {
  const ValueId below = n.Add("Less", {x, n.Like(0, x)});
  return n.Add("Select", {below, n.Add("Multiply", {x, slope}), x});
}

ValueId LeakyOf(OnnxNode& n, ValueId x, double alpha) { return Leaky(n, x, n.Like(alpha, x)); }

void LeakyRelu(OnnxNode& n) { n.Out(0, LeakyOf(n, n.In(0), n.Float("alpha", kLeakyAlpha))); }
// The slope broadcasts as in arithmetic, unlike that of OpenVINO's PReLU.
void PRelu(OnnxNode& n) { n.Out(0, Leaky(n, n.In(0), n.In(1))); }

ValueId ThresholdedOf(OnnxNode& n, ValueId x, double alpha) {
  const ValueId above = n.Add("Greater", {x, n.Like(alpha, x)});
  return n.Add("Select", {above, x, n.Like(0, x)});
}

void ThresholdedRelu(OnnxNode& n) { n.Out(0, ThresholdedOf(n, n.In(0), n.Float("alpha", 1))); }

void Shrink(OnnxNode& n) {
  const ValueId x = n.In(0);
  const double limit = n.Float("lambd", 0.5);
  const ValueId bias = n.Like(n.Float("bias", 0), x);
  const ValueId above = n.Add("Greater", {x, n.Like(limit, x)});
  const ValueId below = n.Add("Less", {x, n.Like(-limit, x)});
  const ValueId lowered = n.Add("Select", {above, n.Add("Subtract", {x, bias}), n.Like(0, x)});
  n.Out(0, n.Add("Select", {below, n.Add("Add", {x, bias}), lowered}));
}

void Gelu(OnnxNode& n) {
  const std::string approximate = n.String("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    n.Fail("attribute 'approximate' is ", Quote(approximate), "; it must be none or tanh");
  }
  n.Out(0,
        n.Add("Gelu", {n.In(0)}, {{"approximation_mode", approximate == "none" ? "erf" : "tanh"}}));
}

ValueId HardSigmoidOf(OnnxNode& n, ValueId x, double alpha, double beta) {
  return n.Add("HardSigmoid", {x, n.Like(alpha, x), n.Like(beta, x)});
}

void HardSigmoid(OnnxNode& n) {
  n.Out(0, HardSigmoidOf(n, n.In(0), n.Float("alpha", kHardSigmoidAlpha),
                         n.Float("beta", kHardSigmoidBeta)));
}

void Swish(OnnxNode& n) {
  const ValueId x = n.In(0);
  n.Out(0, n.Add("Swish", {x, n.Like(n.Float("alpha", 1), x)}));
}

void SwiGlu(OnnxNode& n) {
  const ValueId gate = n.Add("Swish", {n.In(0), n.Like(n.Float("alpha", 1), n.In(0))});
  n.Out(0, n.Add("Multiply", {gate, n.In(1)}));
}

// Until opset 12 the axes from `axis` on are taken for one: f runs over the last axis of a matrix.
template <typename F>
void OverAxis(OnnxNode& n, F f) {
  const ValueId x = n.In(0);
  const int64_t axis = n.Int("axis", n.version() < 13 ? 1 : -1);
  if (n.version() >= 13) {
    n.Out(0, f(x, axis));
    return;
  }
  if (axis == -1 || (n.HasRank(x) && n.Axis(axis, n.Rank(x)) == n.Rank(x) - 1)) {
    n.Out(0, f(x, -1));
    return;
  }
  const ValueId result = f(Flattened(n, x, axis), 1);
  n.Out(0, n.Add("Reshape", {result, ShapeList(n, x)}, {{"special_zero", false}}));
}

void Softmax(OnnxNode& n) {
  OverAxis(n, [&](ValueId x, int64_t axis) { return n.Add("SoftMax", {x}, {{"axis", axis}}); });
}

void LogSoftmax(OnnxNode& n) {
  OverAxis(n, [&](ValueId x, int64_t axis) { return n.Add("LogSoftmax", {x}, {{"axis", axis}}); });
}

// 1 at the first largest element, else 0.
void Hardmax(OnnxNode& n) {
  OverAxis(n, [&](ValueId x, int64_t axis) {
    const ValueId index = n.Add("ArgMax", {x}, {{"axis", axis}, {"keepdims", int64_t{0}}});
    return n.Add("OneHot", {index, ExtentOf(n, x, axis), n.Like(1, x), n.Like(0, x)},
                 {{"axis", axis}});
  });
}

}  // namespace

ValueId Activated(OnnxNode& n, ValueId x, const std::string& name,
                  const ActivationNumbers& numbers) {
  constexpr double kMost = std::numeric_limits<float>::max();
  for (const OnnxOperator& op : OnnxActivations()) {
    if (name == op.name && op.translate == nullptr) {
      return n.Add(op.becomes, {x});
    }
  }
  const auto [alpha, beta, gamma] = numbers;
  if (name == "LeakyRelu") {
    return LeakyOf(n, x, alpha.value_or(kLeakyAlpha));
  }
  if (name == "ThresholdedRelu") {
    return ThresholdedOf(n, x, alpha.value_or(1));
  }
  if (name == "Elu") {
    return n.Add("Elu", {x}, {{"alpha", alpha.value_or(1)}});
  }
  if (name == "Selu") {
    return SeluOf(n, x, alpha.value_or(kSeluAlpha), gamma.value_or(kSeluGamma));
  }
  if (name == "HardSigmoid") {
    return HardSigmoidOf(n, x, alpha.value_or(kHardSigmoidAlpha), beta.value_or(kHardSigmoidBeta));
  }
  if (name == "Clip") {
    return n.Add("Clamp", {x}, {{"min", alpha.value_or(-kMost)}, {"max", beta.value_or(kMost)}});
  }
  n.Unsupported("attribute 'activation' is ", Quote(name),
                "; Clip, Elu, HardSigmoid, HardSwish, LeakyRelu, Mish, Relu, Selu, Sigmoid, "
                "Softplus, Softsign, Tanh and ThresholdedRelu are supported");
  return {};
}

std::vector<OnnxOperator> OnnxActivations() {
  return {
      {"Celu", {12, 28}, 1, 1, 1, "Elu, Divide, Multiply", Celu},
      {"Elu", {6, 22}, 1, 1, 1, "Elu", Elu},
      {"Gelu", {20}, 1, 1, 1, "Gelu", Gelu},
      {"HardSigmoid", {6, 22}, 1, 1, 1, "HardSigmoid", HardSigmoid},
      {"HardSwish", {14, 22}, 1, 1, 1, "HSwish"},
      {"Hardmax", {1, 11, 13}, 1, 1, 1, "ArgMax, OneHot", Hardmax},
      {"LeakyRelu", {6, 16}, 1, 1, 1, "Less, Multiply, Select", LeakyRelu},
      {"LogSoftmax", {1, 11, 13}, 1, 1, 1, "LogSoftmax", LogSoftmax},
      {"Mish", {18, 22}, 1, 1, 1, "Mish"},
      {"PRelu", {7, 9, 16}, 2, 2, 1, "Less, Multiply, Select", PRelu},
      {"Relu", {6, 13, 14}, 1, 1, 1, "ReLU"},
      {"Selu", {6, 22}, 1, 1, 1, "Selu", Selu},
      {"Shrink", {9}, 1, 1, 1, "Add, Subtract, Select", Shrink},
      {"Sigmoid", {6, 13}, 1, 1, 1, "Sigmoid"},
      {"Softmax", {1, 11, 13}, 1, 1, 1, "SoftMax", Softmax},
      {"Softplus", {1, 22}, 1, 1, 1, "SoftPlus"},
      {"Softsign", {1, 22}, 1, 1, 1, "SoftSign"},
      {"SwiGLU", {28}, 2, 2, 1, "Swish, Multiply", SwiGlu},
      {"Swish", {24}, 1, 1, 1, "Swish", Swish},
      {"Tanh", {6, 13}, 1, 1, 1, "Tanh"},
      {"ThresholdedRelu", {10, 22}, 1, 1, 1, "Greater, Select", ThresholdedRelu},
  };
}

}  // namespace beamwright::ops
