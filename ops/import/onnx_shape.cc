// ONNX's operators on shapes, and those that make values from nothing or from a shape.
//
// Operators of the first group change shapes and no elements, or read a shape as integers (Shape,
// Size). Those of the second make tensors: Constant, ConstantOfShape, Range and EyeLike. Dropout
// and Identity disappear; Dropout in training mode is refused, since its result would be random.

#include <algorithm>

#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {

// Shapes, and what changes a shape without touching elements.

namespace {

void Identity(OnnxNode& n) { n.Out(0, n.In(0)); }

void Reshape(OnnxNode& n) {
  const bool zero_is_zero = n.version() >= 14 && n.Flag("allowzero", false);
  n.Out(0, n.Add("Reshape", {n.In(0), n.In(1)}, {{"special_zero", !zero_is_zero}}));
}

// Axes: an attribute until opset 12, then an input.
void Squeeze(OnnxNode& n) {
  if (n.version() >= 13) {
    n.Out(0, n.Add("Squeeze", n.Has(1) ? n.inputs() : std::vector<ValueId>{n.In(0)}));
  } else if (n.HasAttribute("axes")) {
    n.Out(0, n.Add("Squeeze", {n.In(0), n.List(n.Ints("axes"))}));
  } else {
    n.Out(0, n.Add("Squeeze", {n.In(0)}));
  }
}

void Unsqueeze(OnnxNode& n) {
  if (n.version() >= 13 ? n.num_inputs() != 2 : n.num_inputs() != 1) {
    n.Fail("axes must be ", n.version() >= 13 ? "input 1" : "an attribute", " at opset ",
           n.version());
    return;
  }
  n.Out(0, n.Add("Unsqueeze", {n.In(0), n.version() >= 13 ? n.In(1) : n.List(n.Ints("axes"))}));
}

void Flatten(OnnxNode& n) { n.Out(0, Flattened(n, n.In(0), n.Int("axis", 1))); }

// start and end are clamped to the rank, as in a slice.
void ShapeOperator(OnnxNode& n) {
  ValueId shape = ShapeList(n, n.In(0));
  if (n.version() >= 15) {
    const int64_t start = n.Int("start", 0);
    const bool has_end = n.HasAttribute("end");
    if (start != 0 || has_end) {
      const int64_t end = has_end ? n.Int("end", 0) : INT64_MAX;
      shape = n.Add("Slice", {shape, n.List({start}), n.List({end}), n.List({1})});
    }
  }
  n.Out(0, shape);
}

void Size(OnnxNode& n) {
  n.Out(0, n.Add("ReduceProd", {ShapeList(n, n.In(0)), n.List({0})}, {{"keep_dims", false}}));
}

void Expand(OnnxNode& n) {
  n.Out(0, n.Add("Broadcast", {n.In(0), n.In(1)}, {{"mode", "bidirectional"}}));
}

// What inference makes of it: nothing. A mask of what was kept is all true.
void Dropout(OnnxNode& n) {
  if (n.version() < 12) {
    n.Ignore("ratio");
  } else {
    n.Ignore("seed");
    if (n.Has(2)) {
      const Tensor* training = n.Known(n.In(2));
      const Tensor* ratio = n.Has(1) ? n.Known(n.In(1)) : nullptr;
      const bool idle = training != nullptr && training->num_elements() == 1 &&
                        training->dtype() == DType::kBool && !*training->data<bool>();
      const bool harmless = ratio != nullptr && ratio->num_elements() == 1 &&
                            IsFloat(ratio->dtype()) && ToFloat32(*ratio)->front() == 0;
      if (!idle && !harmless) {
        n.Unsupported("training_mode must be false, known at load, or ratio 0");
        return;
      }
    }
  }
  n.Out(0, n.In(0));
  if (n.Wants(1)) {
    // A float until opset 9.
    const ValueId kept = n.version() < 10 ? n.Like(1, n.In(0)) : n.Constant(Tensor::Scalar(true));
    n.Out(1, n.Add("Broadcast", {kept, ShapeList(n, n.In(0))}, {{"mode", "numpy"}}));
  }
}

}  // namespace

std::vector<OnnxOperator> OnnxShapes() {
  return {
      {"Dropout", {7, 10, 12, 13, 22}, 1, 3, 2, "nothing", Dropout},
      {"Expand", {8, 13}, 2, 2, 1, "Broadcast", Expand},
      {"Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, 1, 1, 1, "Reshape", Flatten},
      {"Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, 1, 1, 1, "nothing", Identity},
      {"Reshape", {5, 13, 14, 19, 21, 23, 24, 25}, 2, 2, 1, "Reshape", Reshape},
      {"Shape", {1, 13, 15, 19, 21, 23, 24, 25}, 1, 1, 1, "ShapeOf, Slice", ShapeOperator},
      {"Size", {1, 13, 19, 21, 23, 24, 25}, 1, 1, 1, "ShapeOf, ReduceProd", Size},
      {"Squeeze", {1, 11, 13, 21, 23, 24, 25}, 1, 2, 1, "Squeeze", Squeeze},
      {"Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, 1, 2, 1, "Unsqueeze", Unsqueeze},
  };
}

// Values from nothing or from a shape.

namespace {

// Exactly one of the value attributes; the opsets add forms.
void Constant(OnnxNode& n) {
  std::vector<Tensor> values;
  if (n.HasAttribute("value")) {
    values.push_back(n.TensorAttribute("value"));
  }
  if (n.version() >= 11 && n.HasAttribute("sparse_value")) {
    n.Unsupported("attribute 'sparse_value' is not supported");
  }
  if (n.version() >= 12) {
    if (n.HasAttribute("value_string") || n.HasAttribute("value_strings")) {
      n.Unsupported("text is not supported");
    }
    if (n.HasAttribute("value_float")) {
      values.push_back(Tensor::Scalar(static_cast<float>(n.Float("value_float", 0))));
    }
    if (n.HasAttribute("value_floats")) {
      const std::vector<double> list = n.Floats("value_floats");
      values.push_back(Tensor::Of<float>({static_cast<int64_t>(list.size())},
                                         std::vector<float>(list.begin(), list.end())));
    }
    if (n.HasAttribute("value_int")) {
      values.push_back(Tensor::Scalar<int64_t>(n.Int("value_int", 0)));
    }
    if (n.HasAttribute("value_ints")) {
      const std::vector<int64_t> list = n.Ints("value_ints");
      values.push_back(Tensor::Of<int64_t>({static_cast<int64_t>(list.size())}, list));
    }
  }
  if (n.ok() && values.size() != 1) {
    n.Fail("has ", values.size(), " attributes with a value; it must have one");
  }
  if (n.ok()) {
    n.Out(0, n.Constant(values.front()));
  }
}

void ConstantOfShape(OnnxNode& n) {
  Tensor value = n.TensorAttribute("value");
  if (!n.ok()) {
    return;
  }
  if (!value.has_value()) {
    value = Tensor::Scalar(0.0f);
  }
  if (value.num_elements() != 1) {
    n.Fail("attribute 'value' has ", value.num_elements(), " elements; it must have one");
    return;
  }
  n.Out(0, n.Add("Broadcast", {n.Constant(value.Reshaped({})), n.In(0)}, {{"mode", "numpy"}}));
}

void Range(OnnxNode& n) {
  if (n.version() >= 27) {
    n.Ignore("stash_type");  // numbers are counted from the start, not added up
  }
  const std::string type(Name(n.Type(n.In(0))));
  n.Out(0, n.Add("Range", {AsScalar(n, n.In(0)), AsScalar(n, n.In(1)), AsScalar(n, n.In(2))},
                 {{"output_type", type}}));
}

void EyeLike(OnnxNode& n) {
  const ValueId x = n.In(0);
  absl::StatusOr<DType> dtype =
      n.HasAttribute("dtype") ? OnnxType(n.Int("dtype", 0)) : absl::StatusOr<DType>(n.Type(x));
  if (!dtype.ok()) {
    n.builder().Fail(Annotate(dtype.status(), "attribute 'dtype'"));
    return;
  }
  const ValueId diagonal = n.Add("Equal", {DiagonalNumbers(n, x), n.Scalar(n.Int("k", 0))});
  n.Out(0, ConvertTo(n, diagonal, *dtype));
}

}  // namespace

std::vector<OnnxOperator> OnnxCreation() {
  return {
      {"Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, 0, 0, 1, "Constant", Constant},
      {"ConstantOfShape", {9, 20, 21, 23, 24, 25}, 1, 1, 1, "Broadcast", ConstantOfShape},
      {"EyeLike", {9, 22}, 1, 1, 1, "Range, Subtract, Equal, Convert", EyeLike},
      {"Range", {11, 27}, 3, 3, 1, "Range", Range},
  };
}

}  // namespace beamwright::ops
