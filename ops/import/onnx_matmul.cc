// Products of floats.
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
namespace {

// alpha * A' * B' + beta * C
void Gemm(OnnxNode& n) {
  const double alpha = n.Float("alpha", 1);
  const double beta = n.Float("beta", 1);
  if (n.version() < 11 && !n.Has(2)) {
    n.Fail("has 2 inputs; Gemm of opset ", n.version(), " takes 3");
  }
  ValueId y =
      n.Add("MatMul", {n.In(0), n.In(1)},
            {{"transpose_a", n.Flag("transA", false)}, {"transpose_b", n.Flag("transB", false)}});
  if (alpha != 1) {
    y = n.Add("Multiply", {y, n.Like(alpha, y)});
  }
  if (n.Has(2)) {
    ValueId c = n.In(2);
    if (beta != 1) {
      c = n.Add("Multiply", {c, n.Like(beta, c)});
    }
    y = n.Add("Add", {y, c});
  }
  n.Out(0, y);
}

void Einsum(OnnxNode& n) {
  n.Out(0, n.Add("Einsum", n.inputs(), {{"equation", n.String("equation", "")}}));
}

// alpha * A' * B'
void FusedMatMul(OnnxNode& n) {
  const double alpha = n.Float("alpha", 1);
  if (n.Flag("transBatchA", false) || n.Flag("transBatchB", false)) {
    n.Unsupported("attributes 'transBatchA' and 'transBatchB' must be 0");
  }
  const ValueId y =
      n.Add("MatMul", {n.In(0), n.In(1)},
            {{"transpose_a", n.Flag("transA", false)}, {"transpose_b", n.Flag("transB", false)}});
  n.Out(0, alpha == 1 ? y : n.Add("Multiply", {y, n.Like(alpha, y)}));
}

void BiasGelu(OnnxNode& n) {
  const ValueId x = n.Add("Add", {n.In(0), n.In(1)});
  n.Out(0, n.Add("Gelu", {x}, {{"approximation_mode", "erf"}}));
}

}  // namespace

std::vector<OnnxOperator> OnnxMicrosoftFused() {
  return {
      {"BiasGelu", {1}, 2, 2, 1, "Add, Gelu", BiasGelu},
      {"FusedMatMul", {1}, 2, 2, 1, "MatMul, Multiply", FusedMatMul},
  };
}

std::vector<OnnxOperator> OnnxMatMul() {
  return {
      {"Einsum", {12}, 1, kAnyNumber, 1, "Einsum", Einsum},
      {"Gemm", {7, 9, 11, 13}, 2, 3, 1, "MatMul, Multiply, Add", Gemm},
      {"MatMul", {1, 9, 13}, 2, 2, 1, "MatMul"},
  };
}

}  // namespace beamwright::ops
