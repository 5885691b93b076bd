// Products, and numbers of 8 bits.
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

std::vector<ValueId> PresentInputs(const OnnxNode& n) {
  std::vector<ValueId> inputs = n.inputs();
  while (!inputs.empty() && !inputs.back().present()) {
    inputs.pop_back();
  }
  return inputs;
}

void MatMulInteger(OnnxNode& n) { n.Out(0, n.Add("MatMulInteger", PresentInputs(n))); }

// Where scales and zero points stand.
OnnxBuilder::AttributeList QuantizationPlace(OnnxNode& n) {
  OnnxBuilder::AttributeList attributes;
  if (n.version() >= 13) {
    attributes.push_back({"axis", n.Int("axis", 1)});
  }
  if (n.version() >= 21) {
    attributes.push_back({"block_size", n.Int("block_size", 0)});
  }
  return attributes;
}

// The type that attribute output_dtype asks for; kUndefined if it doesn't.
DType OutputType(OnnxNode& n, int since) {
  const int64_t type = n.version() >= since ? n.Int("output_dtype", 0) : 0;
  if (type == 0) {
    return DType::kUndefined;
  }
  const absl::StatusOr<DType> dtype = OnnxType(type);
  if (!dtype.ok()) {
    n.builder().Fail(Annotate(dtype.status(), "attribute 'output_dtype'"));
    return DType::kUndefined;
  }
  return *dtype;
}

void QuantizeLinear(OnnxNode& n) {
  OnnxBuilder::AttributeList attributes = QuantizationPlace(n);
  if (n.version() >= 19) {
    n.Ignore("saturate");  // of 8-bit floats
  }
  if (n.version() >= 23 && n.Int("precision", 0) != 0) {
    n.Unsupported("attribute 'precision' is not supported");
  }
  const DType dtype = OutputType(n, 21);
  if (dtype != DType::kUndefined) {
    attributes.push_back({"output_dtype", std::string(Name(dtype))});
  }
  n.Out(0, n.Add("QuantizeLinear", PresentInputs(n), std::move(attributes)));
}

void DequantizeLinear(OnnxNode& n) {
  const DType dtype = OutputType(n, 23);
  const ValueId y = n.Add("DequantizeLinear", PresentInputs(n), QuantizationPlace(n));
  n.Out(0, dtype == DType::kUndefined ? y : ConvertTo(n, y, dtype));
}

void DynamicQuantizeLinear(OnnxNode& n) {
  const ValueId first = n.Add("DynamicQuantizeLinear", {n.In(0)}, {}, 3);
  for (int i = 0; i < 3; ++i) {
    n.Out(i, {first.node, i});
  }
}

}  // namespace

std::vector<OnnxOperator> OnnxMatMul() {
  const std::vector<int> quantized = {10, 13, 19, 21, 23, 24, 25};
  return {
      {"DequantizeLinear", quantized, 2, 3, 1, "DequantizeLinear", DequantizeLinear},
      {"DynamicQuantizeLinear", {11}, 1, 1, 3, "DynamicQuantizeLinear", DynamicQuantizeLinear},
      {"Einsum", {12}, 1, kAnyNumber, 1, "Einsum", Einsum},
      {"Gemm", {7, 9, 11, 13}, 2, 3, 1, "MatMul, Multiply, Add", Gemm},
      {"MatMul", {1, 9, 13}, 2, 2, 1, "MatMul"},
      {"MatMulInteger", {10}, 2, 4, 1, "MatMulInteger", MatMulInteger},
      {"QLinearMatMul", {10, 21}, 8, 8, 1, "QLinearMatMul"},
      {"QuantizeLinear", quantized, 2, 3, 1, "QuantizeLinear", QuantizeLinear},
  };
}

}  // namespace beamwright::ops
