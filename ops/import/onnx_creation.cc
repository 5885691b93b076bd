// Values from nothing or from a shape.
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
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
