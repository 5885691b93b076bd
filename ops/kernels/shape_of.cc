#include <cmath>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

absl::StatusOr<DType> OutputType(const Node& node, bool allow_float) {
  BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("output_type", "i64"));
  const absl::StatusOr<DType> dtype = ParseDType(name);
  if (dtype.ok() &&
      (*dtype == DType::kI64 || *dtype == DType::kI32 || (allow_float && *dtype == DType::kF32))) {
    return *dtype;
  }
  return Invalid("attribute output_type: '", name, "' is not supported, only i64",
                 allow_float ? ", i32 and f32" : " and i32");
}

struct ShapeOfOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return OutputType(node, false); }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = dtype;
    outputs[0].shape =
        inputs[0].shape.has_rank() ? PartialShape({inputs[0].shape.rank()}) : DynamicShape(1);
    return absl::OkStatus();
  }
  static absl::Status Compute(Options dtype, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    for (int axis = 0; axis < inputs[0]->rank(); ++axis) {
      if (dtype == DType::kI64) {
        outputs[0].mutable_data<int64_t>()[axis] = inputs[0]->dim(axis);
      } else {
        outputs[0].mutable_data<int32_t>()[axis] = static_cast<int32_t>(inputs[0]->dim(axis));
      }
    }
    return absl::OkStatus();
  }
};

// start, stop and step as doubles: exact for every integer up to 2^53, far above any extent.
constexpr double kMostExact = static_cast<double>(int64_t{1} << 53);
struct Bounds {
  double start = 0;
  double stop = 0;
  double step = 1;
};

struct RangeOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return OutputType(node, true); }

  // True and the bounds, or false if one is not known yet. Bounds are converted to the output's
  // type first, as the operator's definition says.
  static absl::StatusOr<bool> ReadBounds(DType dtype, absl::Span<const InputInfo> inputs,
                                         Bounds& bounds) {
    double* const targets[] = {&bounds.start, &bounds.stop, &bounds.step};
    static constexpr absl::string_view kNames[] = {"start", "stop", "step"};
    bool known = true;
    for (size_t i = 0; i < 3; ++i) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[i], kNames[i], {DType::kI64, DType::kI32, DType::kF32}));
      if (ListLength(inputs[i]) > 1 || (inputs[i].shape.has_rank() && inputs[i].shape.rank() > 1)) {
        return Invalid(kNames[i], ": shape ", inputs[i].shape.ToString(), " must be a scalar");
      }
      if (inputs[i].value == nullptr || inputs[i].value->num_elements() != 1) {
        known = false;
        continue;
      }
      const Tensor& value = *inputs[i].value;
      const double number = value.dtype() == DType::kF32 ? static_cast<double>(*value.data<float>())
                                                         : static_cast<double>(IntAt(value, 0));
      if (!(std::fabs(number) <= kMostExact)) {
        return Invalid(kNames[i], ": ", number, " must be finite and at most 2^53");
      }
      *targets[i] = dtype == DType::kF32 ? static_cast<double>(static_cast<float>(number))
                                         : std::trunc(number);
    }
    if (known && bounds.step == 0) {
      return Invalid("step: must not be 0");
    }
    return known;
  }

  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs));
    Bounds bounds;
    BW_ASSIGN_OR_RETURN(const bool known, ReadBounds(dtype, inputs, bounds));
    outputs[0].dtype = dtype;
    outputs[0].shape = DynamicShape(1);
    if (known) {
      const double count = std::ceil((bounds.stop - bounds.start) / bounds.step);
      if (count > static_cast<double>(int64_t{1} << 48)) {
        return Invalid("more than 2^48 elements from ", bounds.start, " to ", bounds.stop);
      }
      outputs[0].shape = PartialShape({count > 0 ? static_cast<int64_t>(count) : 0});
    }
    return absl::OkStatus();
  }

  static absl::Status Compute(Options dtype, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    Bounds bounds;
    BW_RETURN_IF_ERROR(ReadBounds(dtype, DescribeInputs(inputs), bounds).status());
    VisitDType(dtype, [&](auto type) {
      using T = decltype(type);
      if constexpr (std::is_arithmetic_v<T>) {
        for (int64_t i = 0; i < outputs[0].num_elements(); ++i) {
          const double value = bounds.start + static_cast<double>(i) * bounds.step;
          if constexpr (std::is_integral_v<T>) {
            outputs[0].mutable_data<T>()[i] = static_cast<T>(static_cast<int64_t>(value));
          } else {
            outputs[0].mutable_data<T>()[i] = static_cast<T>(value);
          }
        }
      }
    });
    return absl::OkStatus();
  }
};

}  // namespace

constinit const OperatorCode kShapeOf = CodeOf<ShapeOfOp>(&ShapeOfRows);
constinit const OperatorCode kRange = CodeOf<RangeOp>(&ExtentRows);

}  // namespace beamwright::ops
