// How element-wise operators walk over operands of different shapes.
//
// 1. Shapes at load: BinaryShapes checks types and NumPy's broadcasting rule (or, with
//    auto_broadcast 'none', that both shapes are equal) and infers the result.
// 2. BroadcastPlan gives each operand a stride for each axis of the result, 0 where it is repeated.
//    Neighbouring axes that every operand walks through evenly become one axis, so that the
//    innermost loop is as long as it can be; axes of extent 1 disappear.
// 3. ForEachRow visits the innermost rows in row-major order. It keeps one offset for each operand
//    and carries from axis to axis like an odometer, without a division.
//
// Example: [2, 3, 4] + [3, 1]. The strides by axis are {12, 4, 1} and {0, 1, 0}. No neighbours
// merge: the row of 4 is walked by 1 in the first operand and stays in the second. For [2, 3, 4] +
// [2, 3, 4] all axes become one of 24 elements, and for [2, 3, 4] + [3, 4] two, of 2 and 12.
//
// The functions of one operand that are exact follow behind (UnaryOp, NotOp, ClassifyOp).
#include "ops/kernels/elementwise_loops.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ops/kernels/elementwise.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

// Strides of an operand along the axes of the result.
Shape StridesOf(absl::Span<const int64_t> shape, size_t rank) {
  Shape strides(rank, 0);
  int64_t stride = 1;
  for (size_t i = 1; i <= shape.size(); ++i) {
    const int64_t dim = shape[shape.size() - i];
    strides[rank - i] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  return strides;
}

}  // namespace

BroadcastPlan::BroadcastPlan(absl::Span<const int64_t> out,
                             absl::Span<const absl::Span<const int64_t>> shapes) {
  std::array<Shape, kMaxOperands> full;
  for (size_t k = 0; k < kMaxOperands; ++k) {
    full[k] = k < shapes.size() ? StridesOf(shapes[k], out.size()) : Shape(out.size(), 0);
  }
  // From the innermost axis outwards; reversed at the end. An axis merges with the one inside it if
  // one step on it is as far as all steps on the other, in every operand.
  for (size_t axis = out.size(); axis-- > 0;) {
    if (out[axis] == 1) {
      continue;
    }
    bool merges = !dims.empty();
    for (size_t k = 0; k < kMaxOperands && merges; ++k) {
      merges = full[k][axis] == strides[k].back() * dims.back();
    }
    if (merges) {
      dims.back() *= out[axis];
      continue;
    }
    dims.push_back(out[axis]);
    for (size_t k = 0; k < kMaxOperands; ++k) {
      strides[k].push_back(full[k][axis]);
    }
  }
  if (dims.empty()) {
    dims.push_back(1);
    for (Shape& stride : strides) {
      stride.push_back(0);
    }
  }
  std::reverse(dims.begin(), dims.end());
  for (Shape& stride : strides) {
    std::reverse(stride.begin(), stride.end());
  }
}

void BroadcastPlan::ForEachRow(
    absl::FunctionRef<void(int64_t, int64_t, const PerOperand&, const PerOperand&)> row) const {
  const size_t inner = dims.size() - 1;
  PerOperand offsets{};
  PerOperand steps{};
  for (size_t k = 0; k < kMaxOperands; ++k) {
    steps[k] = strides[k][inner];
  }
  const int64_t total = NumElements(dims);
  Shape index(dims.size(), 0);
  for (int64_t done = 0; done < total; done += dims[inner]) {
    row(done, dims[inner], offsets, steps);
    for (size_t axis = inner; axis-- > 0;) {
      // Where an axis is at its end it goes back to its begin, and the next one outwards steps.
      const bool carry = ++index[axis] == dims[axis];
      for (size_t k = 0; k < kMaxOperands; ++k) {
        offsets[k] += carry ? -strides[k][axis] * (dims[axis] - 1) : strides[k][axis];
      }
      if (!carry) {
        break;
      }
      index[axis] = 0;
    }
  }
}

absl::StatusOr<bool> ParseAutoBroadcast(const Node& node) {
  BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("auto_broadcast", "numpy"));
  if (mode != "numpy" && mode != "none") {
    return Invalid("attribute auto_broadcast: '", mode, "' is not supported, only numpy and none");
  }
  return mode == "numpy";
}

absl::Status BinaryShapes(bool broadcast, absl::Span<const InputInfo> inputs,
                          absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
  if (inputs[0].dtype != inputs[1].dtype) {
    return Invalid("element types ", Name(inputs[0].dtype), " and ", Name(inputs[1].dtype),
                   " of the inputs differ");
  }
  if (!broadcast && inputs[0].shape.has_rank() && inputs[1].shape.has_rank()) {
    bool equal = inputs[0].shape.rank() == inputs[1].shape.rank();
    for (int i = 0; equal && i < inputs[0].shape.rank(); ++i) {
      equal = MergeExtents(inputs[0].shape.dim(i), inputs[1].shape.dim(i)).ok();
    }
    if (!equal) {
      return Invalid("shapes ", inputs[0].shape.ToString(), " and ", inputs[1].shape.ToString(),
                     " differ, and auto_broadcast is 'none'");
    }
  }
  outputs[0].dtype = inputs[0].dtype;
  BW_ASSIGN_OR_RETURN(outputs[0].shape, BroadcastPartial(inputs[0].shape, inputs[1].shape));
  return absl::OkStatus();
}

// Element-wise functions of one operand that are exact: Abs, Negative, Sign, ReLU, Floor, Ceiling
// and Round (UnaryOp), logical and bitwise Not (NotOp), IsNaN, IsInf and IsFinite (ClassifyOp).
// Negation of integers wraps, in unsigned arithmetic. Functions that round, such as Exp and Tanh,
// are in elementwise_real.cc.

namespace {

enum class Function {
  kAbs,
  kNegative,
  kSign,
  kRelu,
  kFloor,
  kCeiling,
  kRoundToEven,
  kRoundAwayFromZero,
};

template <typename T>
absl::Status Round(Function function, const Tensor& in, Tensor& out) {
  if constexpr (std::is_integral_v<T>) {
    return MapElements<T, T>(in, out, [](T x) { return x; });
  } else {
    switch (function) {
      case Function::kFloor:
        return MapElements<T, T>(in, out, [](T x) { return std::floor(x); });
      case Function::kCeiling:
        return MapElements<T, T>(in, out, [](T x) { return std::ceil(x); });
      case Function::kRoundToEven:
        return MapElements<T, T>(in, out, [](T x) { return std::nearbyint(x); });
      default:
        return MapElements<T, T>(in, out, [](T x) { return std::round(x); });
    }
  }
}

template <typename T>
absl::Status Apply(Function function, const Tensor& in, Tensor& out) {
  const auto negated = [](T x) { return static_cast<T>(-static_cast<WrapType<T>>(x)); };
  switch (function) {
    case Function::kAbs:
      if constexpr (std::is_floating_point_v<T>) {
        return MapElements<T, T>(in, out, [](T x) { return std::fabs(x); });
      } else {
        return MapElements<T, T>(in, out, [negated](T x) { return x < T{0} ? negated(x) : x; });
      }
    case Function::kNegative:
      return MapElements<T, T>(in, out, negated);
    case Function::kSign:
      // NaN stays.
      return MapElements<T, T>(in, out, [](T x) {
        return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : x == T{0} ? T{0} : x;
      });
    case Function::kRelu:
      return MapElements<T, T>(in, out, [](T x) { return x < T{0} ? T{0} : x; });
    default:
      return Round<T>(function, in, out);
  }
}

// Functions that are exact, of any numeric type.
struct UnaryOp {
  using Options = Function;
  static absl::StatusOr<Options> Parse(const Node& node) {
    static const auto& functions = *new std::map<std::string, Function>{
        {"Abs", Function::kAbs},          {"Negative", Function::kNegative},
        {"Sign", Function::kSign},        {"ReLU", Function::kRelu},
        {"Floor", Function::kFloor},      {"Ceiling", Function::kCeiling},
        {"Round", Function::kRoundToEven}};
    const auto found = functions.find(node.op);
    if (found == functions.end()) {
      return Invalid("'", node.op, "' is not an exact operator of one operand");
    }
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "half_to_even"));
    if (mode == "half_away_from_zero") {
      return Function::kRoundAwayFromZero;
    }
    if (mode != "half_to_even") {
      return Invalid("attribute mode: '", mode,
                     "' is not supported, only half_to_even and half_away_from_zero");
    }
    return found->second;
  }
  static bool WidensHalves(Options) { return true; }
  static absl::Status Shapes(Options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return UnaryShapes(inputs, kNumericTypes, outputs);
  }
  static absl::Status Compute(Options function, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitNumeric(inputs[0]->dtype(), [&](auto type) {
      return Apply<decltype(type)>(function, *inputs[0], outputs[0]);
    });
  }
};

struct NotOp {
  using Options = bool;  // bitwise: integers as well
  static absl::StatusOr<Options> Parse(const Node& node) { return node.op == "BitwiseNot"; }
  static absl::Status Shapes(Options bitwise, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return bitwise ? UnaryShapes(inputs, kIntegerAndBoolTypes, outputs)
                   : UnaryShapes(inputs, {DType::kBool}, outputs);
  }
  static absl::Status Compute(Options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitIntegral(inputs[0]->dtype(), [&](auto type) {
      using T = decltype(type);
      return MapElements<T, T>(*inputs[0], outputs[0], [](T x) {
        if constexpr (std::is_same_v<T, bool>) {
          return !x;
        } else {
          return static_cast<T>(~static_cast<WrapType<T>>(x));
        }
      });
    });
  }
};

// IsNaN, IsInf, IsFinite.
struct ClassifyOp {
  struct Options {
    bool nan = false;
    bool negative_infinity = false;
    bool positive_infinity = false;
    bool finite = false;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    options.nan = node.op == "IsNaN";
    options.finite = node.op == "IsFinite";
    if (node.op == "IsInf") {
      BW_ASSIGN_OR_RETURN(options.negative_infinity, node.attributes.Bool("detect_negative", true));
      BW_ASSIGN_OR_RETURN(options.positive_infinity, node.attributes.Bool("detect_positive", true));
    }
    return options;
  }
  static bool WidensHalves(const Options&) { return true; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(UnaryShapes(inputs, kFloatTypes, outputs));
    outputs[0].dtype = DType::kBool;
    return absl::OkStatus();
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitFloat(inputs[0]->dtype(), [&](auto type) {
      using T = decltype(type);
      return MapElements<T, bool>(*inputs[0], outputs[0], [&options](T x) {
        return std::isnan(x)   ? options.nan
               : std::isinf(x) ? (x < 0 ? options.negative_infinity : options.positive_infinity)
                               : options.finite;
      });
    });
  }
};

}  // namespace

constinit const OperatorCode kUnary = CodeOf<UnaryOp>(&ElementwiseRows);
constinit const OperatorCode kNot = CodeOf<NotOp>(&ElementwiseRows);
constinit const OperatorCode kClassify = CodeOf<ClassifyOp>(&ElementwiseRows);

}  // namespace beamwright::ops
