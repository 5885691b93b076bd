// ONNX's products: of matrices, convolutions with pooling, and Fourier transforms, which are
// products with constant matrices.
//
// 1. Matrices: MatMul is ours; Gemm is alpha * A B + beta * C, where factors of 1 add no node.
// 2. Convolutions and poolings: ReadWindow reads strides, dilations and pads, which all of them
//    share. The groups of a convolution become an axis of its weights (GroupedWeights). A
//    transposed convolution may ask for its output's extents, from which the pads then follow
//    (TransposedExtents).
// 3. DFT: x has real and imaginary parts on its last axis. Each part is multiplied by a constant
//    matrix [samples, 2 * frequencies] that holds cosines and sines (FourierMatrix); the two
//    products are added and the axes brought back into the order of ONNX.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {

// Products of floats.

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

// Convolution and pooling.

namespace {

// Where windows of one size lie: what convolutions and poolings share.
struct Window {
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads_begin;
  std::vector<int64_t> pads_end;
  std::string auto_pad;
};

// A list attribute of one number for each spatial axis.
std::vector<int64_t> PerAxis(OnnxNode& n, const char* name, size_t axes) {
  std::vector<int64_t> values = n.Ints(name, std::vector<int64_t>(axes, 1));
  if (n.ok() && values.size() != axes) {
    n.Fail("attribute '", name, "' has ", values.size(), " numbers; there are ", axes,
           " spatial axes");
  }
  return values;
}

Window ReadWindow(OnnxNode& n, size_t axes, bool has_dilations) {
  Window window;
  window.strides = PerAxis(n, "strides", axes);
  window.dilations = has_dilations ? PerAxis(n, "dilations", axes) : std::vector<int64_t>(axes, 1);
  const std::vector<int64_t> pads = n.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (n.ok() && pads.size() != 2 * axes) {
    n.Fail("attribute 'pads' has ", pads.size(), " numbers; there are ", axes,
           " spatial axes, which need two each");
  }
  if (!n.ok()) {
    return window;
  }
  window.pads_begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(axes));
  window.pads_end.assign(pads.begin() + static_cast<ptrdiff_t>(axes), pads.end());
  const std::string auto_pad = n.String("auto_pad", "NOTSET");
  const std::pair<const char*, const char*> words[] = {{"NOTSET", "explicit"},
                                                       {"SAME_UPPER", "same_upper"},
                                                       {"SAME_LOWER", "same_lower"},
                                                       {"VALID", "valid"}};
  for (const auto& [theirs, ours] : words) {
    if (auto_pad == theirs) {
      window.auto_pad = ours;
    }
  }
  if (window.auto_pad.empty()) {
    n.Fail("attribute 'auto_pad' is ", Quote(auto_pad),
           "; it must be NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  return window;
}

// The weights, whose first axis has the channels of all groups, with the groups as an axis of their
// own.
ValueId GroupedWeights(OnnxNode& n, ValueId weights, int64_t groups) {
  const PartialShape shape = n.info(weights).shape;
  if (!shape.is_static() || shape.dim(0) % groups != 0) {
    n.Fail("weights ", shape.ToString(), " do not make ", groups, " groups of known extents");
    return {};
  }
  std::vector<int64_t> grouped = {groups, shape.dim(0) / groups};
  grouped.insert(grouped.end(), shape.dims().begin() + 1, shape.dims().end());
  return Reshaped(n, weights, grouped);
}

// The number of spatial axes, from the weights' rank; 0 after an error.
size_t SpatialAxes(OnnxNode& n, ValueId weights) {
  const int rank = n.Rank(weights);
  if (n.ok() && rank < 3) {
    n.Fail("weights have rank ", rank, "; it must be at least 3");
  }
  return n.ok() ? static_cast<size_t>(rank - 2) : 0;
}

void CheckKernelShape(OnnxNode& n, ValueId filters, size_t axes) {
  const std::vector<int64_t> kernel = n.Ints("kernel_shape");
  const PartialShape& weights = n.info(filters).shape;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t extent = i < axes ? weights.dim(static_cast<int>(i) + 2) : 0;
    if (kernel.size() != axes || (extent >= 0 && extent != kernel[i])) {
      n.Fail("attribute 'kernel_shape' contradicts the weights ", weights.ToString());
    }
  }
}

struct ConvolutionInputs {
  ValueId x;
  ValueId weights;
  ValueId bias;     // may be absent
  ValueId extents;  // the third input of a transposed one; may be absent
};

// Adds the convolution that `attributes` describe, and its bias.
ValueId AddConvolution(OnnxNode& n, const char* op, const char* grouped_op, size_t axes,
                       OnnxBuilder::AttributeList attributes, const ConvolutionInputs& given) {
  const int64_t groups = n.Int("group", 1);
  if (groups < 1) {
    n.Fail("attribute 'group' is ", groups, "; it must be at least 1");
  }
  if (!n.ok()) {
    return {};
  }
  std::vector<ValueId> inputs = {
      given.x, groups == 1 ? given.weights : GroupedWeights(n, given.weights, groups)};
  if (given.extents.present()) {
    inputs.push_back(given.extents);
  }
  ValueId y = n.Add(groups == 1 ? op : grouped_op, std::move(inputs), std::move(attributes));
  if (given.bias.present()) {
    std::vector<int64_t> pattern(axes + 2, 1);
    pattern[1] = -1;
    y = n.Add("Add", {y, Reshaped(n, given.bias, pattern)});
  }
  return y;
}

OnnxBuilder::AttributeList ConvolutionAttributes(const Window& window) {
  return {{"strides", window.strides},
          {"dilations", window.dilations},
          {"pads_begin", window.pads_begin},
          {"pads_end", window.pads_end},
          {"auto_pad", window.auto_pad}};
}

void Conv(OnnxNode& n) { n.Out(0, Convolved(n, n.In(0), n.In(1), n.In(2))); }

// The spatial extents that a ConvTranspose asks for, from which its pads follow; absent if pads are
// given instead.
ValueId TransposedExtents(OnnxNode& n, const Window& window, size_t axes) {
  if (n.HasAttribute("output_shape")) {
    std::vector<int64_t> shape = n.Ints("output_shape");
    // Some exporters list all axes.
    shape.erase(shape.begin(), shape.begin() + (shape.size() == axes + 2 ? 2 : 0));
    if (n.ok() && shape.size() != axes) {
      n.Fail("attribute 'output_shape' has ", shape.size(), " numbers; there are ", axes,
             " spatial axes");
    }
    return n.List(shape);
  }
  if (window.auto_pad != "same_upper" && window.auto_pad != "same_lower") {
    return {};
  }
  std::vector<ValueId> extents;
  for (size_t i = 0; n.ok() && i < axes; ++i) {
    const ValueId extent = ExtentOf(n, n.In(0), static_cast<int64_t>(i) + 2);
    const ValueId product = n.Add("Multiply", {extent, n.Scalar(window.strides[i])});
    extents.push_back(Reshaped(n, product, {1}));
  }
  return n.Add("Concat", std::move(extents), {{"axis", int64_t{0}}});
}

void ConvTranspose(OnnxNode& n) {
  const size_t axes = SpatialAxes(n, n.In(1));
  Window window = ReadWindow(n, axes, true);
  CheckKernelShape(n, n.In(1), axes);
  const ValueId extents = TransposedExtents(n, window, axes);
  if (extents.present()) {
    // Pads are not looked at then. Of an odd number ONNX puts one more behind with SAME_UPPER and
    // in front with anything else; OpenVINO means it the other way round.
    window.auto_pad = window.auto_pad == "same_upper" ? "same_lower" : "same_upper";
  }
  OnnxBuilder::AttributeList attributes = ConvolutionAttributes(window);
  attributes.push_back({"output_padding", n.Ints("output_padding", std::vector<int64_t>(axes, 0))});
  n.Out(0, AddConvolution(n, "ConvolutionBackpropData", "GroupConvolutionBackpropData", axes,
                          std::move(attributes), {n.In(0), n.In(1), n.In(2), extents}));
}

OnnxBuilder::AttributeList PoolAttributes(OnnxNode& n, bool has_dilations) {
  const std::vector<int64_t> kernel = n.Ints("kernel_shape");
  if (kernel.empty()) {
    n.Fail("attribute 'kernel_shape' is missing");
  }
  const Window window = ReadWindow(n, kernel.size(), has_dilations);
  const bool ceil = n.version() >= 10 && n.Flag("ceil_mode", false);
  OnnxBuilder::AttributeList attributes = {{"kernel", kernel},
                                           {"strides", window.strides},
                                           {"pads_begin", window.pads_begin},
                                           {"pads_end", window.pads_end},
                                           {"auto_pad", window.auto_pad},
                                           {"rounding_type", ceil ? "ceil_torch" : "floor"}};
  if (has_dilations) {
    attributes.push_back({"dilations", window.dilations});
  }
  return attributes;
}

// Indices into planes of the input, counted with the first spatial axis fastest instead of the
// last.
ValueId ColumnMajor(OnnxNode& n, ValueId indices) {
  const int rank = n.Rank(n.In(0));
  ValueId left = indices;
  std::vector<ValueId> positions;  // on each spatial axis, the last one first
  for (int axis = rank - 1; n.ok() && axis >= 2; --axis) {
    const ValueId extent = ExtentOf(n, n.In(0), axis);
    positions.push_back(n.Add("FloorMod", {left, extent}));
    left = n.Add("Divide", {left, extent});
  }
  // What is left is the plane's number.
  for (int axis = rank - 1; n.ok() && axis >= 2; --axis) {
    const ValueId scaled = n.Add("Multiply", {left, ExtentOf(n, n.In(0), axis)});
    left = n.Add("Add", {scaled, positions[static_cast<size_t>(rank - 1 - axis)]});
  }
  return left;
}

void MaxPool(OnnxNode& n) {
  OnnxBuilder::AttributeList attributes = PoolAttributes(n, n.version() >= 10);
  const bool column_major = n.Flag("storage_order", false);
  attributes.push_back({"index_element_type", "i64"});
  attributes.push_back({"axis", int64_t{0}});
  const ValueId y = n.Add("MaxPool", {n.In(0)}, std::move(attributes), 2);
  n.Out(0, y);
  const ValueId indices{y.node, y.present() ? 1 : 0};
  n.Out(1, column_major && n.Wants(1) ? ColumnMajor(n, indices) : indices);
}

void AveragePool(OnnxNode& n) { n.Out(0, AveragePooled(n, n.In(0), n.version() >= 19)); }

void GlobalPool(OnnxNode& n, const char* op) {
  const int rank = n.Rank(n.In(0));
  std::vector<int64_t> axes;
  for (int axis = 2; axis < rank; ++axis) {
    axes.push_back(axis);
  }
  n.Out(0, n.Add(op, {n.In(0), n.List(axes)}, {{"keep_dims", true}}));
}
void GlobalAveragePool(OnnxNode& n) { GlobalPool(n, "ReduceMean"); }
void GlobalMaxPool(OnnxNode& n) { GlobalPool(n, "ReduceMax"); }

}  // namespace

ValueId Convolved(OnnxNode& n, ValueId x, ValueId weights, ValueId bias) {
  const size_t axes = SpatialAxes(n, weights);
  const Window window = ReadWindow(n, axes, true);
  CheckKernelShape(n, weights, axes);
  return AddConvolution(n, "Convolution", "GroupConvolution", axes, ConvolutionAttributes(window),
                        {x, weights, bias, {}});
}

ValueId AveragePooled(OnnxNode& n, ValueId x, bool has_dilations) {
  OnnxBuilder::AttributeList attributes = PoolAttributes(n, has_dilations);
  attributes.push_back({"exclude-pad", !n.Flag("count_include_pad", false)});
  return n.Add("AvgPool", {x}, std::move(attributes));
}

std::vector<OnnxOperator> OnnxConvolutions() {
  return {
      {"AveragePool", {7, 10, 11, 19, 22}, 1, 1, 1, "AvgPool", AveragePool},
      {"Conv", {1, 11, 22}, 2, 3, 1, "Convolution or GroupConvolution, Add", Conv},
      {"ConvTranspose", {1, 11, 22}, 2, 3, 1, "ConvolutionBackpropData, Add", ConvTranspose},
      {"GlobalAveragePool", {1, 22}, 1, 1, 1, "ReduceMean", GlobalAveragePool},
      {"GlobalMaxPool", {1, 22}, 1, 1, 1, "ReduceMax", GlobalMaxPool},
      {"MaxPool", {8, 10, 11, 12, 22}, 1, 1, 2, "MaxPool", MaxPool},
  };
}

// Fourier transforms as exports of audio front ends have them: products with constant matrices, as
// their lengths are known.

namespace {

// A matrix has twice as many elements as the square of this.
constexpr int64_t kMostLength = 4096;

// [rows, 2 * columns]: what sample n adds to the real parts of all frequencies, then to the
// imaginary ones. Rows beyond `length` are zeros: samples that are cut off.
struct FourierShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t length = 0;
  bool inverse = false;
};

Tensor FourierMatrix(const FourierShape& shape, bool of_imaginary) {
  Tensor matrix = Tensor::Zeros(DType::kF32, {shape.rows, 2 * shape.columns});
  const double scale = shape.inverse ? 1.0 / static_cast<double>(shape.length) : 1.0;
  const double sign = shape.inverse ? 1.0 : -1.0;
  for (int64_t n = 0; n < std::min(shape.rows, shape.length); ++n) {
    float* const row = matrix.mutable_data<float>() + n * 2 * shape.columns;
    for (int64_t k = 0; k < shape.columns; ++k) {
      const double turn =
          static_cast<double>(n * k % shape.length) / static_cast<double>(shape.length);
      const double real = scale * std::cos(2 * std::numbers::pi * turn);
      const double imaginary = scale * sign * std::sin(2 * std::numbers::pi * turn);
      row[k] = static_cast<float>(of_imaginary ? -imaginary : real);
      row[shape.columns + k] = static_cast<float>(of_imaginary ? real : imaginary);
    }
  }
  return matrix;
}

// The axis that is transformed; from opset 20 on an input.
int SignalAxis(OnnxNode& n, int rank) {
  int64_t axis = n.version() >= 20 ? -2 : n.Int("axis", 1);
  if (n.version() >= 20 && n.Has(2)) {
    const std::vector<int64_t> given = n.KnownInts(2, "axis");
    axis = given.size() == 1 ? given[0] : axis;
  }
  const int found = n.Axis(axis, rank);
  if (n.ok() && found == rank - 1) {
    n.Fail("axis ", axis, " is that of real and imaginary parts");
  }
  return found;
}

// Part 0 (real) or 1 (imaginary) of x, with the signal's axis last.
ValueId SignalPart(OnnxNode& n, ValueId x, int part, int axis, int rank) {
  const ValueId plain = n.Add("Gather", {x, n.Scalar(part), n.Scalar(rank - 1)});
  std::vector<int64_t> order(static_cast<size_t>(rank - 1));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end());
  return n.Add("Transpose", {plain, n.List(order)});
}

void Dft(OnnxNode& n) {
  const ValueId x = n.In(0);
  const int rank = n.Rank(x);
  const bool inverse = n.Flag("inverse", false);
  const bool onesided = n.Flag("onesided", false);
  const int axis = rank < 2 ? 0 : SignalAxis(n, rank);
  if (!n.ok()) {
    return;
  }
  if (rank < 2) {
    n.Fail("input 0 has rank ", rank, "; it needs an axis for the signal and one for its parts");
    return;
  }
  const PartialShape& shape = n.info(x).shape;
  const int64_t parts = shape.dim(rank - 1);
  FourierShape fourier;
  fourier.rows = shape.dim(axis);
  fourier.inverse = inverse;
  fourier.length = fourier.rows;
  if (n.Has(1)) {
    const std::vector<int64_t> given = n.KnownInts(1, "dft_length");
    fourier.length = given.size() == 1 ? given[0] : 0;
  }
  if (fourier.rows < 1 || fourier.length < 1 || (parts != 1 && parts != 2) ||
      std::max(fourier.rows, fourier.length) > kMostLength) {
    n.Unsupported("a transform of ", shape.ToString(), " along axis ", axis,
                  " is not supported; the extent of that axis must be known and at most ",
                  kMostLength, ", and that of the last one 1 or 2");
    return;
  }
  if (n.Type(x) != DType::kF32 || (onesided && inverse)) {
    n.Unsupported("only f32, and one-sided transforms that are not inverse, are supported");
    return;
  }
  fourier.columns = onesided ? fourier.length / 2 + 1 : fourier.length;
  ValueId sum = n.Add("MatMul", {SignalPart(n, x, 0, axis, rank),
                                 n.Constant(FourierMatrix(fourier, /*of_imaginary=*/false))});
  if (parts == 2) {
    const ValueId imaginary =
        n.Add("MatMul", {SignalPart(n, x, 1, axis, rank),
                         n.Constant(FourierMatrix(fourier, /*of_imaginary=*/true))});
    sum = n.Add("Add", {sum, imaginary});
  }
  // [..., 2 * columns] -> [..., 2, columns] -> the parts last, the frequencies where the signal
  // was.
  std::vector<int64_t> pattern(static_cast<size_t>(rank), 0);
  pattern[static_cast<size_t>(rank - 2)] = 2;
  pattern[static_cast<size_t>(rank - 1)] = fourier.columns;
  std::vector<int64_t> order;
  for (int i = 0; i < rank - 2; ++i) {
    order.push_back(i);
  }
  order.insert(order.begin() + axis, rank - 1);
  order.push_back(rank - 2);
  n.Out(0, n.Add("Transpose", {Reshaped(n, sum, pattern), n.List(order)}));
}

}  // namespace

std::vector<OnnxOperator> OnnxSignal() {
  return {{"DFT", {17, 20}, 1, 3, 1, "Gather, Transpose, MatMul, Reshape", Dft}};
}

}  // namespace beamwright::ops
