// Activations and the softmaxes.
#include "ops/import/onnx_activation.h"

#include <limits>

#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
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
