// Numbers of 8 and 16 bits: what ONNX and ONNX Runtime's quantiser write. Integers and their sums
// stay integers up to the one rounding that the operator's document names. There are three kinds of
// operators:
//
// 1. Conversions: QuantizeLinear and DequantizeLinear, and DynamicQuantizeLinear, which takes scale
//    and zero point from the range of its input.
// 2. Products and convolutions (MatMulInteger, QLinearMatMul, QGemm, ConvInteger, QLinearConv):
//    integers less their zero points are multiplied and summed in i32 (IntegerProduct, Centred).
//    The sums are scaled once, as floats (ScaledProduct), and quantised again if the output is of 8
//    bits (Quantized).
// 3. Everything else (QLinearAdd, QLinearSoftmax and others): the operands are dequantised, the
//    operator for floats runs, and its result is quantised (OfFloats).
//
// A scale must be positive and finite, which CheckScale asks of those that are known at load.
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {
namespace {

// Where a number of 8 bits stands among the inputs: value, scale, zero point.
struct Place {
  int value = 0;
  int scale = 1;
  int zero = 2;
};

ValueId AsF32(OnnxNode& n, ValueId x) { return ConvertTo(n, x, DType::kF32); }

// (x - zero point) * scale; zero: may be absent.
ValueId Dequantized(OnnxNode& n, ValueId x, ValueId scale, ValueId zero) {
  std::vector<ValueId> inputs = {x, scale};
  if (zero.present()) {
    inputs.push_back(zero);
  }
  return n.Add("DequantizeLinear", std::move(inputs));
}
ValueId Dequantized(OnnxNode& n, const Place& at) {
  return Dequantized(n, n.In(at.value), n.In(at.scale), n.In(at.zero));
}

// x / scale + zero point, rounded and saturated; without a zero point of type `dtype`.
ValueId Quantized(OnnxNode& n, ValueId x, ValueId scale, ValueId zero, DType dtype) {
  if (zero.present()) {
    return n.Add("QuantizeLinear", {x, scale, zero});
  }
  return n.Add("QuantizeLinear", {x, scale}, {{"output_dtype", std::string(Name(dtype))}});
}

// x - zero point in i32, the zero point absent (0), one, or one an index of axis 0.
ValueId Centred(OnnxNode& n, ValueId x, ValueId zero) {
  const ValueId wide = ConvertTo(n, x, DType::kI32);
  if (!zero.present()) {
    return wide;
  }
  ValueId offset = ConvertTo(n, zero, DType::kI32);
  if (n.Type(x) != n.Type(zero)) {
    n.Fail("a zero point of type ", Name(n.Type(zero)), " does not belong to values of type ",
           Name(n.Type(x)));
    return {};
  }
  if (n.HasRank(zero) && n.Rank(zero) == 1) {
    std::vector<int64_t> pattern(static_cast<size_t>(n.Rank(x)), 1);
    pattern[0] = -1;
    offset = Reshaped(n, offset, pattern);
  }
  return n.Add("Subtract", {wide, offset});
}

ValueId IntegerProduct(OnnxNode& n, ValueId a, ValueId b, ValueId a_zero, ValueId b_zero) {
  std::vector<ValueId> inputs = {a, b, a_zero, b_zero};
  while (!inputs.back().present()) {
    inputs.pop_back();
  }
  return n.Add("MatMulInteger", std::move(inputs));
}

// An integer product as floats: sums * (a_scale * b_scale) + bias.
ValueId ScaledProduct(OnnxNode& n, ValueId sums, ValueId a_scale, ValueId b_scale, ValueId bias) {
  const ValueId scale = n.Add("Multiply", {a_scale, b_scale});
  const ValueId y = n.Add("Multiply", {AsF32(n, sums), scale});
  return bias.present() ? n.Add("Add", {y, bias}) : y;
}

std::vector<ValueId> PresentInputs(const OnnxNode& n) {
  std::vector<ValueId> inputs = n.inputs();
  while (!inputs.empty() && !inputs.back().present()) {
    inputs.pop_back();
  }
  return inputs;
}

// Where scales and zero points stand. ONNX Runtime's own operators, version 1, have an axis, too.
OnnxBuilder::AttributeList QuantizationPlace(OnnxNode& n) {
  OnnxBuilder::AttributeList attributes;
  if (n.version() == 1 || n.version() >= 13) {
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
  CheckScale(n, 1, "y_scale");
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
  CheckScale(n, 1, "x_scale");
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

void MatMulInteger(OnnxNode& n) { n.Out(0, IntegerProduct(n, n.In(0), n.In(1), n.In(2), n.In(3))); }

void QLinearMatMul(OnnxNode& n) {
  CheckScale(n, 1, "a_scale");
  CheckScale(n, 4, "b_scale");
  CheckScale(n, 6, "y_scale");
  n.Out(0, n.Add("QLinearMatMul", n.inputs()));
}

void MatMulIntegerToFloat(OnnxNode& n) {
  CheckScale(n, 2, "a_scale");
  CheckScale(n, 3, "b_scale");
  const ValueId sums = IntegerProduct(n, n.In(0), n.In(1), n.In(4), n.In(5));
  n.Out(0, ScaledProduct(n, sums, n.In(2), n.In(3), n.In(6)));
}

// a is quantised by its own range when the graph runs, b is in 8 bits in the file.
void DynamicQuantizeMatMul(OnnxNode& n) {
  CheckScale(n, 2, "b_scale");
  const ValueId a = n.Add("DynamicQuantizeLinear", {n.In(0)}, {}, 3);
  if (!a.present()) {
    return;
  }
  const ValueId sums = IntegerProduct(n, a, n.In(1), {a.node, 2}, n.In(3));
  n.Out(0, ScaledProduct(n, sums, {a.node, 1}, n.In(2), n.In(4)));
}

// A' and B' as they multiply; sums of them and of C, requantised or as floats.
void QGemm(OnnxNode& n) {
  CheckScale(n, 1, "a_scale");
  CheckScale(n, 4, "b_scale");
  CheckScale(n, 7, "y_scale");
  const auto operand = [&](int input, const char* flag) {
    return n.Flag(flag, false) ? n.Add("Transpose", {n.In(input), n.List({1, 0})}) : n.In(input);
  };
  const double alpha = n.Float("alpha", 1);
  const ValueId a = operand(0, "transA");
  const ValueId b = operand(3, "transB");
  ValueId sums = IntegerProduct(n, a, b, n.In(2), n.In(5));
  if (n.Has(6)) {
    sums = n.Add("Add", {sums, n.In(6)});
  }
  ValueId scale = n.Add("Multiply", {n.In(1), n.In(4)});
  if (alpha != 1) {
    scale = n.Add("Multiply", {scale, n.Like(alpha, scale)});
  }
  if (!n.Has(7)) {
    n.Out(0, n.Add("Multiply", {AsF32(n, sums), scale}));
    return;
  }
  scale = n.Add("Divide", {scale, n.In(7)});
  const ValueId scaled = n.Add("Multiply", {AsF32(n, sums), scale});
  n.Out(0, Quantized(n, scaled, n.Like(1, scaled), n.In(8), n.Type(n.In(0))));
}

void ConvInteger(OnnxNode& n) {
  const ValueId x = Centred(n, n.In(0), n.In(2));
  n.Out(0, Convolved(n, x, Centred(n, n.In(1), n.In(3)), {}));
}

// sums * (x_scale * w_scale / y_scale), rounded to y's type: one rounding for each element. A scale
// for each output channel multiplies along axis 1.
void QLinearConv(OnnxNode& n) {
  CheckScale(n, 1, "x_scale");
  CheckScale(n, 4, "w_scale");
  CheckScale(n, 6, "y_scale");
  const ValueId x = Centred(n, n.In(0), n.In(2));
  const ValueId sums = Convolved(n, x, Centred(n, n.In(3), n.In(5)), n.In(8));
  ValueId w_scale = n.In(4);
  if (n.HasRank(w_scale) && n.Rank(w_scale) == 1) {  // one an output channel
    std::vector<int64_t> pattern(static_cast<size_t>(n.Rank(n.In(0))), 1);
    pattern[1] = -1;
    w_scale = Reshaped(n, w_scale, pattern);
  }
  const ValueId scale = n.Add("Divide", {n.Add("Multiply", {n.In(1), w_scale}), n.In(6)});
  const ValueId scaled = n.Add("Multiply", {AsF32(n, sums), scale});
  n.Out(0, Quantized(n, scaled, n.Like(1, scaled), n.In(7), n.Type(n.In(0))));
}

// op of dequantised operands, quantised.
template <typename F>
void OfFloats(OnnxNode& n, const std::vector<Place>& operands, int y_scale, F f) {
  std::vector<ValueId> inputs;
  for (const Place& at : operands) {
    CheckScale(n, at.scale, "scale");
    inputs.push_back(Dequantized(n, at));
  }
  CheckScale(n, y_scale, "output scale");
  const ValueId y = f(inputs);
  n.Out(0, Quantized(n, y, n.In(y_scale), n.In(y_scale + 1), n.Type(n.In(operands[0].value))));
}

template <typename F>
void OfOne(OnnxNode& n, F f) {
  OfFloats(n, {{0, 1, 2}}, 3, [&](const std::vector<ValueId>& in) { return f(in[0]); });
}

void QLinearAdd(OnnxNode& n) {
  OfFloats(n, {{0, 1, 2}, {3, 4, 5}}, 6, [&](auto in) { return n.Add("Add", in); });
}
void QLinearMul(OnnxNode& n) {
  OfFloats(n, {{0, 1, 2}, {3, 4, 5}}, 6, [&](auto in) { return n.Add("Multiply", in); });
}
void QLinearSigmoid(OnnxNode& n) {
  OfOne(n, [&](ValueId x) { return n.Add("Sigmoid", {x}); });
}
void QLinearLeakyRelu(OnnxNode& n) {
  const double alpha = n.Float("alpha", 0.01f);
  OfOne(n, [&](ValueId x) {
    const ValueId low = n.Add("Multiply", {x, n.Like(alpha, x)});
    return n.Add("Select", {n.Add("Less", {x, n.Like(0, x)}), low, x});
  });
}
// `opset` decides which Softmax is meant: before 13 that of all axes from `axis` on.
void QLinearSoftmax(OnnxNode& n) {
  const int64_t axis = n.Int("axis", -1);
  const int64_t opset = n.Int("opset", 13);
  OfOne(n, [&](ValueId x) {
    if (opset >= 13 || axis == -1) {
      return n.Add("SoftMax", {x}, {{"axis", axis}});
    }
    const ValueId flat = n.Add("SoftMax", {Flattened(n, x, axis)}, {{"axis", int64_t{1}}});
    return n.Add("Reshape", {flat, ShapeList(n, x)}, {{"special_zero", false}});
  });
}
void QLinearReduceMean(OnnxNode& n) {
  const std::vector<int64_t> axes = n.Ints("axes");
  const bool keep = n.Flag("keepdims", true);
  OfOne(n, [&](ValueId x) {
    return n.Add("ReduceMean", {x, axes.empty() ? AllAxes(n, x) : n.List(axes)},
                 {{"keep_dims", keep}});
  });
}
void RefuseChannelsLast(OnnxNode& n) {
  if (n.Flag("channels_last", false)) {
    n.Unsupported("attribute 'channels_last' must be 0");
  }
}
void QLinearGlobalAveragePool(OnnxNode& n) {
  RefuseChannelsLast(n);
  OfOne(n, [&](ValueId x) {
    std::vector<int64_t> axes;
    for (int axis = 2; axis < n.Rank(x); ++axis) {
      axes.push_back(axis);
    }
    return n.Add("ReduceMean", {x, n.List(axes)}, {{"keep_dims", true}});
  });
}
void QLinearAveragePool(OnnxNode& n) {
  RefuseChannelsLast(n);
  if (n.Flag("ceil_mode", false)) {
    n.Unsupported("attribute 'ceil_mode' must be 0");
  }
  OfOne(n, [&](ValueId x) { return AveragePooled(n, x, false); });
}
// Y_scale, Y_zero_point, then value, scale and zero point of each part.
void QLinearConcat(OnnxNode& n) {
  const int64_t axis = n.Int("axis", 0);
  if (n.num_inputs() % 3 != 2) {
    n.Fail("has ", n.num_inputs(), " inputs; they must be 2 and 3 for each part");
    return;
  }
  std::vector<Place> parts;
  for (int i = 2; i < n.num_inputs(); i += 3) {
    parts.push_back({i, i + 1, i + 2});
  }
  OfFloats(n, parts, 0, [&](auto in) { return n.Add("Concat", in, {{"axis", axis}}); });
}
void QLinearWhere(OnnxNode& n) {
  OfFloats(n, {{1, 2, 3}, {4, 5, 6}}, 7, [&](auto in) {
    return n.Add("Select", {n.In(0), in[0], in[1]});
  });
}

}  // namespace

std::vector<OnnxOperator> OnnxQuantized() {
  const std::vector<int> linear = {10, 13, 19, 21, 23, 24, 25, 28};
  return {
      {"ConvInteger", {10}, 2, 4, 1, "Convert, Subtract, Convolution", ConvInteger},
      {"DequantizeLinear", linear, 2, 3, 1, "DequantizeLinear", DequantizeLinear},
      {"DynamicQuantizeLinear", {11}, 1, 1, 3, "DynamicQuantizeLinear", DynamicQuantizeLinear},
      {"MatMulInteger", {10}, 2, 4, 1, "MatMulInteger", MatMulInteger},
      {"QLinearConv",
       {10},
       8,
       9,
       1,
       "Convert, Subtract, Convolution, Multiply, QuantizeLinear",
       QLinearConv},
      {"QLinearMatMul", {10, 21}, 8, 8, 1, "QLinearMatMul", QLinearMatMul},
      {"QuantizeLinear", linear, 2, 3, 1, "QuantizeLinear", QuantizeLinear},
  };
}

std::vector<OnnxOperator> OnnxMicrosoftQuantized() {
  const char* const kOfFloats = "DequantizeLinear, QuantizeLinear";
  return {
      {"DequantizeLinear", {1, 28}, 2, 3, 1, "DequantizeLinear", DequantizeLinear},
      {"DynamicQuantizeMatMul",
       {1},
       3,
       5,
       1,
       "DynamicQuantizeLinear, MatMulInteger, Multiply, Add",
       DynamicQuantizeMatMul},
      {"MatMulIntegerToFloat", {1}, 4, 7, 1, "MatMulInteger, Multiply, Add", MatMulIntegerToFloat},
      {"QGemm", {1}, 6, 9, 1, "MatMulInteger, Add, Multiply, QuantizeLinear", QGemm},
      {"QLinearAdd", {1}, 7, 8, 1, kOfFloats, QLinearAdd},
      {"QLinearAveragePool", {1}, 4, 5, 1, kOfFloats, QLinearAveragePool},
      {"QLinearConcat", {1}, 5, kAnyNumber, 1, kOfFloats, QLinearConcat},
      {"QLinearGlobalAveragePool", {1}, 5, 5, 1, kOfFloats, QLinearGlobalAveragePool},
      {"QLinearLeakyRelu", {1}, 4, 5, 1, kOfFloats, QLinearLeakyRelu},
      {"QLinearMul", {1}, 7, 8, 1, kOfFloats, QLinearMul},
      {"QLinearReduceMean", {1}, 4, 5, 1, kOfFloats, QLinearReduceMean},
      {"QLinearSigmoid", {1}, 4, 5, 1, kOfFloats, QLinearSigmoid},
      {"QLinearSoftmax", {1}, 5, 5, 1, kOfFloats, QLinearSoftmax},
      {"QLinearWhere", {1}, 9, 9, 1, kOfFloats, QLinearWhere},
      {"QuantizeLinear", {1, 28}, 2, 3, 1, "QuantizeLinear", QuantizeLinear},
  };
}

}  // namespace beamwright::ops
