// Quantisation of one tensor: FakeQuantize, QuantizeLinear and DequantizeLinear.
//
// A graph that was quantised holds DequantizeLinear on its weights and QuantizeLinear on
// activations. Passes fold the first and fuse products with the second; what is left of them runs
// here, element by element.
#include "ops/kernels/quantization.h"

#include <algorithm>
#include <cmath>

#include "ops/kernels/inputs.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// QuantizeLinear and DequantizeLinear of ONNX:
//
//   quantize:    y = saturate(round(x / scale) + zero)       f32 to integers of 8 or 16 bits
//   dequantize:  y = (x - zero) scale                        integers to f32
//
// A scale is one number, one for each element of an axis, or, with block_size, one for each block
// of elements along the axis. ForEachScale visits all elements with the index of their scale; zero
// points have the scale's shape. Rounding is to even, as nearbyint does it.
//
// Models rarely run these on large tensors at run time: passes fold weights and fuse quantised
// products (integer_matmul.cc). So the loops are simple.

namespace {

struct LinearOptions {
  int64_t axis = 1;
  int64_t block_size = 0;
  DType output = DType::kUndefined;  // QuantizeLinear, if the attribute is given
};

absl::StatusOr<LinearOptions> ParseLinear(const Node& node) {
  LinearOptions options;
  BW_ASSIGN_OR_RETURN(options.axis, node.attributes.Int("axis", 1));
  BW_ASSIGN_OR_RETURN(options.block_size, node.attributes.Int("block_size", 0));
  if (options.block_size < 0) {
    return Invalid("attribute block_size: ", options.block_size, " must not be negative");
  }
  if (node.attributes.Has("output_dtype")) {
    BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("output_dtype", ""));
    BW_ASSIGN_OR_RETURN(options.output, ParseDType(name));
  }
  return options;
}

bool IsOneElement(const PartialShape& shape) {
  return shape.rank() == 0 || (shape.rank() == 1 && shape.dim(0) == 1);
}

// Whether x of `data` can be scaled by `scale`.
absl::Status CheckScale(const LinearOptions& options, const PartialShape& data,
                        const PartialShape& scale, absl::string_view name) {
  if (!data.has_rank() || !scale.has_rank() || (options.block_size == 0 && IsOneElement(scale))) {
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(options.axis, data.rank()));
  bool fits = options.block_size == 0 ? scale.rank() == 1 : scale.rank() == data.rank();
  if (fits && options.block_size == 0) {
    fits = MergeExtents(scale.dim(0), data.dim(axis)).ok();
  }
  for (int i = 0; fits && options.block_size > 0 && i < data.rank(); ++i) {
    const int64_t extent = data.dim(i);
    const int64_t expected = i == axis && extent >= 0
                                 ? extent / options.block_size + (extent % options.block_size != 0)
                                 : extent;
    fits = MergeExtents(scale.dim(i), expected).ok();
  }
  return fits ? absl::OkStatus()
              : Invalid(name, ": shape ", scale.ToString(), " does not fit x of shape ",
                        data.ToString(), ", axis ", options.axis, " and block_size ",
                        options.block_size);
}

// For each element of data in turn the index of its scale.
template <typename Visit>
void ForEachScale(const LinearOptions& options, const Tensor& data, const Tensor& scale,
                  Visit visit) {
  if (options.block_size == 0 && scale.num_elements() == 1) {
    for (int64_t i = 0; i < data.num_elements(); ++i) {
      visit(i, 0);
    }
    return;
  }
  const int axis = NormalizeAxis(options.axis, data.rank()).value_or(0);
  const int64_t extent = data.dim(axis);
  int64_t inner = 1;
  for (int i = axis + 1; i < data.rank(); ++i) {
    inner *= data.dim(i);
  }
  const int64_t blocks = options.block_size == 0 ? extent : scale.dim(axis);
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    const int64_t at = i / inner % extent;
    visit(i, options.block_size == 0
                 ? at
                 : (i / (inner * extent) * blocks + at / options.block_size) * inner + i % inner);
  }
}

// Per-axis scales run along one axis, so rows may stand on any other; blocks have rows
// too and are not looked at further.
RowInfo LinearRows(const Node& node, absl::Span<const RowInfo> rows,
                   absl::Span<const InputInfo> inputs) {
  const auto first = OnlyFirstHasRows(rows);
  if (!first.has_value() || node.attributes.Int("block_size", 0).value_or(0) != 0 ||
      !inputs[1].shape.has_rank()) {
    return RowsWithoutRows(rows).value_or(kMixedRows);
  }
  return IsOneElement(inputs[1].shape)
             ? *first
             : RowsOffAxis(node.attributes.Int("axis", 1).value_or(1), rows, inputs);
}

absl::Status CheckZeroPoint(absl::Span<const InputInfo> inputs, absl::string_view name) {
  if (!Present(inputs, 2) || !inputs[1].shape.is_static() || !inputs[2].shape.is_static()) {
    return absl::OkStatus();
  }
  const bool both_one = IsOneElement(inputs[1].shape) && IsOneElement(inputs[2].shape);
  if (!both_one && inputs[1].shape != inputs[2].shape) {
    return Invalid(name, ": shape ", inputs[2].shape.ToString(), " is not that of the scale, ",
                   inputs[1].shape.ToString());
  }
  return absl::OkStatus();
}

const Tensor* ZeroPoint(absl::Span<const Tensor* const> inputs) { return InputOrNull(inputs, 2); }

struct QuantizeOp {
  using Options = LinearOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseLinear(node); }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 3, outputs));
    BW_RETURN_IF_ERROR(
        ExpectType(inputs[0], "x", {DType::kF32, DType::kF16, DType::kBF16, DType::kI32}));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "y_scale", {DType::kF32, DType::kF16, DType::kBF16}));
    InputInfo output;
    output.dtype = Present(inputs, 2)                    ? inputs[2].dtype
                   : options.output != DType::kUndefined ? options.output
                                                         : DType::kU8;
    BW_RETURN_IF_ERROR(ExpectType(output, Present(inputs, 2) ? "y_zero_point" : "output",
                                  {DType::kI8, DType::kU8, DType::kI16, DType::kU16}));
    if (options.output != DType::kUndefined && options.output != output.dtype) {
      return Invalid("attribute output_dtype: ", Name(options.output),
                     " is not the type of y_zero_point, ", Name(output.dtype));
    }
    BW_RETURN_IF_ERROR(CheckScale(options, inputs[0].shape, inputs[1].shape, "y_scale"));
    BW_RETURN_IF_ERROR(CheckZeroPoint(inputs, "y_zero_point"));
    outputs[0].dtype = output.dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const Tensor data, Convert(*inputs[0], DType::kF32));
    BW_ASSIGN_OR_RETURN(const Tensor scale, Convert(*inputs[1], DType::kF32));
    VisitDType(outputs[0].dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_integral_v<T> && sizeof(T) <= 2 && !std::is_same_v<T, bool>) {
        const T* zero = ZeroPoint(inputs) == nullptr ? nullptr : ZeroPoint(inputs)->data<T>();
        const float* in = data.data<float>();
        const float* scales = scale.data<float>();
        T* out = outputs[0].mutable_data<T>();
        ForEachScale(options, data, scale, [&](int64_t i, int64_t at) {
          const float offset = zero == nullptr ? 0.0f : static_cast<float>(zero[at]);
          out[i] = Saturate<T>(std::nearbyint(in[i] / scales[at]) + offset);
        });
      }
    });
    return absl::OkStatus();
  }
};

struct DequantizeOp {
  using Options = LinearOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseLinear(node); }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 3, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "x",
                                  {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32}));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "x_scale", {DType::kF32, DType::kF16, DType::kBF16}));
    if (Present(inputs, 2)) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[2], "x_zero_point", {inputs[0].dtype}));
    }
    BW_RETURN_IF_ERROR(CheckScale(options, inputs[0].shape, inputs[1].shape, "x_scale"));
    BW_RETURN_IF_ERROR(CheckZeroPoint(inputs, "x_zero_point"));
    outputs[0].dtype = inputs[1].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    BW_ASSIGN_OR_RETURN(const Tensor scale, Convert(*inputs[1], DType::kF32));
    Tensor result(DType::kF32, data.shape());
    VisitDType(data.dtype(), [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_integral_v<T> && sizeof(T) <= 4 && !std::is_same_v<T, bool>) {
        const T* zero = ZeroPoint(inputs) == nullptr ? nullptr : ZeroPoint(inputs)->data<T>();
        const T* in = data.data<T>();
        float* out = result.mutable_data<float>();
        ForEachScale(options, data, scale, [&](int64_t i, int64_t at) {
          const int64_t steps = int64_t{in[i]} - (zero == nullptr ? 0 : int64_t{zero[at]});
          out[i] = static_cast<float>(steps) * scale.data<float>()[at];
        });
      }
    });
    BW_ASSIGN_OR_RETURN(outputs[0], Convert(result, inputs[1]->dtype()));
    return absl::OkStatus();
  }
};

}  // namespace

constinit const OperatorCode kQuantizeLinear = CodeOf<QuantizeOp>(&LinearRows);
constinit const OperatorCode kDequantizeLinear = CodeOf<DequantizeOp>(&LinearRows);

// FakeQuantize: rounds each element to one of `levels` values between input_low and input_high, and
// maps that range to [output_low, output_high] (Quantize). What is outside becomes the nearer end
// of it. It simulates quantization in floats, as graphs that were trained for it contain it.
//
// The limits may be one for all elements, or broadcast to the data's shape: Run computes which
// limit each element has (Offsets). Types of 16 bits are widened to f32 (WidenedCodeOf).

namespace {

constexpr absl::string_view kNames[] = {"data", "input_low", "input_high", "output_low",
                                        "output_high"};

struct FakeQuantizeOp {
  struct Options {
    int64_t levels = 2;
    bool broadcasts = true;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.levels, node.attributes.Int("levels", 0));
    if (options.levels < 2 || options.levels > (int64_t{1} << 24)) {
      return Invalid("attribute levels: ", options.levels, " is outside [2, 2^24]");
    }
    BW_ASSIGN_OR_RETURN(const std::string broadcast,
                        node.attributes.String("auto_broadcast", "numpy"));
    if (broadcast != "numpy" && broadcast != "none") {
      return Invalid("attribute auto_broadcast: '", broadcast,
                     "' is not supported, only numpy and none");
    }
    options.broadcasts = broadcast == "numpy";
    return options;
  }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 5, 5, outputs));
    const PartialShape& data = inputs[0].shape;
    for (size_t i = 0; i < 5; ++i) {
      BW_RETURN_IF_ERROR(
          ExpectType(inputs[i], kNames[i], {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}));
      if (inputs[i].dtype != inputs[0].dtype) {
        return Invalid(kNames[i], ": element type ", Name(inputs[i].dtype),
                       " is not that of data, ", Name(inputs[0].dtype));
      }
      const PartialShape& limit = inputs[i].shape;
      if (!data.has_rank() || !limit.has_rank()) {
        continue;
      }
      bool fits = options.broadcasts ? limit.rank() <= data.rank() : limit.rank() == data.rank();
      for (int axis = 1; fits && axis <= limit.rank(); ++axis) {
        const int64_t mine = limit.dim(limit.rank() - axis);
        const int64_t theirs = data.dim(data.rank() - axis);
        fits = mine == theirs || mine < 0 || theirs < 0 || (mine == 1 && options.broadcasts);
      }
      if (!fits) {
        return Invalid(kNames[i], ": shape ", limit.ToString(), " does not broadcast to ",
                       data.ToString(), ", that of data");
      }
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = data;
    return absl::OkStatus();
  }

  template <typename T>
  static T Quantize(T x, T in_low, T in_high, T out_low, T out_high, T steps) {
    if (x <= std::min(in_low, in_high)) {
      return out_low;
    }
    if (x > std::max(in_low, in_high)) {
      return out_high;
    }
    return std::nearbyint((x - in_low) / (in_high - in_low) * steps) / steps *
               (out_high - out_low) +
           out_low;
  }

  template <typename T>
  static void Run(const Options& options, absl::Span<const Tensor* const> inputs, Tensor& output) {
    const Tensor& data = *inputs[0];
    std::vector<int64_t> at[5];  // of each limit, per element of data
    for (size_t i = 1; i < 5; ++i) {
      const Shape& shape = inputs[i]->shape();
      const Shape dense = DenseStrides(shape);
      Shape strides(data.shape().size(), 0);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        strides[strides.size() - shape.size() + axis] = shape[axis] == 1 ? 0 : dense[axis];
      }
      if (inputs[i]->num_elements() != 1) {
        at[i] = Offsets(data.shape(), strides);
      }
    }
    const auto limit = [&](size_t i, int64_t element) {
      return inputs[i]->data<T>()[at[i].empty() ? 0 : at[i][static_cast<size_t>(element)]];
    };
    const T* in = data.data<T>();
    T* out = output.mutable_data<T>();
    for (int64_t i = 0; i < data.num_elements(); ++i) {
      out[i] = Quantize(in[i], limit(1, i), limit(2, i), limit(3, i), limit(4, i),
                        static_cast<T>(options.levels - 1));
    }
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    if (inputs[0]->dtype() == DType::kF64) {
      Run<double>(options, inputs, outputs[0]);
    } else {
      Run<float>(options, inputs, outputs[0]);
    }
    return absl::OkStatus();
  }

  // Limits may not be larger than data, so they can't have rows where data has none.
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return IsRows(rows[0]) ? ElementwiseRows(node, rows, inputs)
                           : RowsWithoutRows(rows).value_or(kMixedRows);
  }
};

}  // namespace

constinit const OperatorCode kFakeQuantize = WidenedCodeOf<FakeQuantizeOp>(&FakeQuantizeOp::Rows);

}  // namespace beamwright::ops
