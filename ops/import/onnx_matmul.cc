// Products of floats.
#include "ops/import/onnx_matmul.h"

#include "ops/import/onnx_operators.h"

namespace beamwright::ops {
namespace {

void Gemm(OnnxNode& n) {
  if (n.version() < 11 && !n.Has(2)) {
    n.Fail("has 2 inputs; Gemm of opset ", n.version(), " takes 3");
  }
  n.Out(0, GeneralProduct(n));
}

void Einsum(OnnxNode& n) {
  n.Out(0, n.Add("Einsum", n.inputs(), {{"equation", n.String("equation", "")}}));
}

}  // namespace

ValueId ScaledProduct(OnnxNode& n, ValueId a, ValueId b) {
  const double alpha = n.Float("alpha", 1);
  const ValueId y =
      n.Add("MatMul", {a, b},
            {{"transpose_a", n.Flag("transA", false)}, {"transpose_b", n.Flag("transB", false)}});
  return alpha == 1 ? y : n.Add("Multiply", {y, n.Like(alpha, y)});
}

ValueId GeneralProduct(OnnxNode& n) {
  const double beta = n.Float("beta", 1);
  const ValueId y = ScaledProduct(n, n.In(0), n.In(1));
  if (!n.Has(2)) {
    return y;
  }
  ValueId c = n.In(2);
  if (beta != 1) {
    c = n.Add("Multiply", {c, n.Like(beta, c)});
  }
  return n.Add("Add", {y, c});
}

std::vector<OnnxOperator> OnnxMatMul() {
  return {
      {"Einsum", {12, 28}, 1, kAnyNumber, 1, "Einsum", Einsum},
      {"Gemm", {7, 9, 11, 13}, 2, 3, 1, "MatMul, Multiply, Add", Gemm},
      {"MatMul", {1, 9, 13}, 2, 2, 1, "MatMul"},
  };
}

}  // namespace beamwright::ops
