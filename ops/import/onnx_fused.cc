// What ONNX Runtime's optimiser makes of several operators: domain com.microsoft. Each is written
// as the operators that it was made of; later passes fuse them again in the way that suits our
// kernels. Products and activations are those of onnx_products.cc and onnx_elementwise.cc,
// normalisations those of onnx_reduce.cc.
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {
namespace {

constexpr double kSkipEpsilon = 1e-12f;

ValueId PlusBias(OnnxNode& n, ValueId x, int bias) {
  return n.Has(bias) ? n.Add("Add", {x, n.In(bias)}) : x;
}

void BiasGelu(OnnxNode& n) {
  n.Out(0, n.Add("Gelu", {PlusBias(n, n.In(0), 1)}, {{"approximation_mode", "erf"}}));
}

void FastGelu(OnnxNode& n) {
  n.Out(0, n.Add("Gelu", {PlusBias(n, n.In(0), 1)}, {{"approximation_mode", "tanh"}}));
}

// x * sigmoid(alpha * x)
void QuickGelu(OnnxNode& n) {
  n.Out(0, n.Add("Swish", {n.In(0), n.Like(n.Float("alpha", 1.702f), n.In(0))}));
}

// The first axis moved to where a matrix has its rows: [M, batch..., K] to [batch..., M, K].
ValueId RowsFirst(OnnxNode& n, ValueId x) {
  const int rank = n.Rank(x);
  std::vector<int64_t> order;
  for (int axis = 1; axis + 1 < rank; ++axis) {
    order.push_back(axis);
  }
  order.push_back(0);
  if (rank > 1) {
    order.push_back(rank - 1);
  }
  return rank > 2 ? n.Add("Transpose", {x, n.List(order)}) : x;
}

void FusedMatMul(OnnxNode& n) {
  const ValueId a = n.Flag("transBatchA", false) ? RowsFirst(n, n.In(0)) : n.In(0);
  const ValueId b = n.Flag("transBatchB", false) ? RowsFirst(n, n.In(1)) : n.In(1);
  n.Out(0, ScaledProduct(n, a, b));
}

std::optional<double> Number(OnnxNode& n, const char* name) {
  return n.HasAttribute(name) ? std::optional<double>(n.Float(name, 0)) : std::nullopt;
}

void FusedGemm(OnnxNode& n) {
  const ActivationNumbers numbers = {Number(n, "activation_alpha"), Number(n, "activation_beta"),
                                     Number(n, "activation_gamma")};
  const std::string activation = n.String("activation", "");
  const ValueId y = GeneralProduct(n);
  n.Out(0, activation.empty() ? y : Activated(n, y, activation, numbers));
}

// A fourth input is added in front of the activation.
void FusedConv(OnnxNode& n) {
  const std::vector<double> params = n.Floats("activation_params");
  ActivationNumbers numbers;
  if (!params.empty()) {
    numbers.alpha = params[0];
  }
  if (params.size() > 1) {
    numbers.beta = params[1];
  }
  const std::string activation = n.String("activation", "");
  const ValueId y = PlusBias(n, Convolved(n, n.In(0), n.In(1), n.In(2)), 3);
  n.Out(0, activation.empty() ? y : Activated(n, y, activation, numbers));
}

// Both inputs together, and the bias at `bias`; a skip may lack the axis of the batch.
ValueId Skipped(OnnxNode& n, int bias) {
  const ValueId sum = PlusBias(n, n.Add("Add", {n.In(0), n.In(1)}), bias);
  n.Out(3, sum);
  return sum;
}

void SkipLayerNormalization(OnnxNode& n) {
  const double epsilon = n.Float("epsilon", kSkipEpsilon);
  const ValueId x = Skipped(n, 4);
  n.Out(0, LayerNormalized(n, x, {-1}, epsilon, n.In(2), n.In(3)));
  WriteMoments(n, x, {-1}, epsilon, 1);
}

void SkipSimplifiedLayerNormalization(OnnxNode& n) {
  const double epsilon = n.Float("epsilon", kSkipEpsilon);
  const ValueId x = Skipped(n, 3);
  n.Out(0, RmsNormalized(n, x, {-1}, epsilon, n.In(2), 2));
}

}  // namespace

std::vector<OnnxOperator> OnnxMicrosoftFused() {
  return {
      {"BiasGelu", {1}, 2, 2, 1, "Add, Gelu", BiasGelu},
      {"FastGelu", {1}, 1, 2, 1, "Add, Gelu", FastGelu},
      {"FusedConv", {1}, 2, 4, 1, "Convolution, Add, ReLU", FusedConv},
      {"FusedGemm", {1}, 2, 3, 1, "MatMul, Multiply, Add, ReLU", FusedGemm},
      {"FusedMatMul", {1}, 2, 2, 1, "Transpose, MatMul, Multiply", FusedMatMul},
      {"QuickGelu", {1}, 1, 1, 1, "Swish", QuickGelu},
      {"SkipLayerNormalization", {1}, 3, 5, 4, "Add, MVN, Multiply", SkipLayerNormalization},
      {"SkipSimplifiedLayerNormalization",
       {1},
       3,
       4,
       4,
       "Add, ReduceMean, Sqrt, Divide, Multiply",
       SkipSimplifiedLayerNormalization},
  };
}

}  // namespace beamwright::ops
