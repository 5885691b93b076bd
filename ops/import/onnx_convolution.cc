// Convolution and pooling.
#include "ops/import/onnx_convolution.h"

#include <algorithm>

#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
