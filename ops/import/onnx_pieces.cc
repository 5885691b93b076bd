#include "ops/import/onnx_pieces.h"

#include <algorithm>
#include <cmath>

namespace beamwright::ops {

ValueId ShapeList(OnnxNode& n, ValueId x) {
  const PartialShape& shape = n.info(x).shape;
  if (shape.is_static()) {
    return n.List(std::vector<int64_t>(shape.dims().begin(), shape.dims().end()));
  }
  return n.Add("ShapeOf", {x}, {{"output_type", "i64"}});
}

ValueId ExtentOf(OnnxNode& n, ValueId x, int64_t axis) {
  if (n.HasRank(x)) {
    const int known_axis = n.Axis(axis, n.Rank(x));
    if (!n.ok()) {
      return {};
    }
    const int64_t extent = n.info(x).shape.dim(known_axis);
    if (extent != PartialShape::kDynamic) {
      return n.Scalar(extent);
    }
  }
  return n.Add("Gather", {ShapeList(n, x), n.Scalar(axis), n.Scalar(0)});
}

ValueId Reshaped(OnnxNode& n, ValueId x, std::vector<int64_t> pattern) {
  return n.Add("Reshape", {x, n.List(pattern)}, {{"special_zero", true}});
}

ValueId AsScalar(OnnxNode& n, ValueId x) {
  if (n.HasRank(x) && n.Rank(x) == 0) {
    return x;
  }
  return n.Add("Reshape", {x, n.List({})}, {{"special_zero", false}});
}

ValueId Flattened(OnnxNode& n, ValueId x, int64_t axis) {
  if (axis < 0 || n.HasRank(x)) {
    const int rank = n.Rank(x);
    // Unlike elsewhere the rank itself is an axis: everything stands before it.
    axis = axis == rank ? rank : n.Axis(axis, std::max(rank, 1));
    if (axis == rank) {
      return Reshaped(n, x, {-1, 1});
    }
    const int64_t last = axis + 1 == rank ? n.info(x).shape.dim(rank - 1) : 0;
    if (last > 0 && axis != 0) {
      return Reshaped(n, x, {-1, last});
    }
  }
  if (axis <= 1) {
    return Reshaped(n, x, {axis == 0 ? 1 : 0, -1});
  }
  const ValueId before =
      n.Add("Slice", {ShapeList(n, x), n.List({0}), n.List({axis}), n.List({1})});
  const ValueId rows = n.Add("ReduceProd", {before, n.List({0})}, {{"keep_dims", true}});
  const ValueId pattern = n.Add("Concat", {rows, n.List({-1})}, {{"axis", int64_t{0}}});
  return n.Add("Reshape", {x, pattern}, {{"special_zero", false}});
}

ValueId AllAxes(OnnxNode& n, ValueId x) {
  if (n.HasRank(x)) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < n.Rank(x); ++axis) {
      axes.push_back(axis);
    }
    return n.List(axes);
  }
  return Counting(n, AsScalar(n, n.Add("ShapeOf", {ShapeList(n, x)}, {{"output_type", "i64"}})));
}

ValueId Counting(OnnxNode& n, ValueId count) {
  return n.Add("Range", {n.Scalar(0), count, n.Scalar(1)}, {{"output_type", "i64"}});
}

ValueId DiagonalNumbers(OnnxNode& n, ValueId x) {
  const ValueId row = Reshaped(n, Counting(n, ExtentOf(n, x, -2)), {-1, 1});
  return n.Add("Subtract", {Counting(n, ExtentOf(n, x, -1)), row});
}

ValueId ConvertTo(OnnxNode& n, ValueId x, DType dtype) {
  if (n.info(x).dtype == dtype) {
    return x;
  }
  return n.Add("Convert", {x}, {{"destination_type", std::string(Name(dtype))}});
}

std::string FaultOfScale(OnnxNode& n, int input, const char* name) {
  const Tensor* const known = n.Has(input) ? n.Known(n.In(input)) : nullptr;
  const absl::StatusOr<std::vector<float>> values =
      known == nullptr ? std::vector<float>() : ToFloat32(*known);
  for (size_t i = 0; values.ok() && i < values->size(); ++i) {
    const float value = (*values)[i];
    if (!(value > 0) || std::isinf(value)) {
      return absl::StrCat("input '", name, "': element ", i, " is ", value,
                          "; a scale must be a finite number above 0");
    }
  }
  return "";
}

void CheckScale(OnnxNode& n, int input, const char* name) {
  const std::string fault = FaultOfScale(n, input, name);
  if (!fault.empty()) {
    n.Fail(fault);
  }
}

}  // namespace beamwright::ops
