#include <cmath>
#include <limits>
#include <map>
#include <type_traits>

#include "ops/kernels/broadcast_loop.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

enum class Function {
  kSqrt,
  kExp,
  kLog,
  kAbs,
  kNegative,
  kFloor,
  kSigmoid,
  kTanh,
  kRelu,
  kNot,
};

template <typename T, typename F>
absl::Status Map(const Tensor& input, Tensor& output, F f) {
  const T* in = input.data<T>();
  T* out = output.mutable_data<T>();
  const int64_t count = input.num_elements();
  for (int64_t i = 0; i < count; ++i) {
    out[i] = f(in[i]);
  }
  return absl::OkStatus();
}

absl::Status MapFloat(Function function, const Tensor& in, Tensor& out) {
  switch (function) {
    case Function::kSqrt:
      return Map<float>(in, out, [](float x) { return std::sqrt(x); });
    case Function::kExp:
      return Map<float>(in, out, [](float x) { return Exp(x); });
    case Function::kLog:
      return Map<float>(in, out, [](float x) { return Log(x); });
    case Function::kAbs:
      return Map<float>(in, out, [](float x) { return std::fabs(x); });
    case Function::kNegative:
      return Map<float>(in, out, [](float x) { return -x; });
    case Function::kFloor:
      return Map<float>(in, out, [](float x) { return std::floor(x); });
    case Function::kSigmoid:
      return Map<float>(in, out, [](float x) { return Sigmoid(x); });
    case Function::kTanh:
      return Map<float>(in, out, [](float x) { return Tanh(x); });
    default:
      return Map<float>(in, out, [](float x) { return x < 0.0f ? 0.0f : x; });
  }
}

template <typename T>
absl::Status MapInteger(Function function, const Tensor& in, Tensor& out) {
  const auto negated = [](T x) {
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  };
  switch (function) {
    case Function::kAbs:
      return Map<T>(in, out, [negated](T x) { return x < 0 ? negated(x) : x; });
    case Function::kNegative:
      return Map<T>(in, out, negated);
    case Function::kRelu:
      return Map<T>(in, out, [](T x) { return x < 0 ? T{0} : x; });
    default:  // kFloor
      return Map<T>(in, out, [](T x) { return x; });
  }
}

struct UnaryOp {
  using Options = Function;
  static absl::StatusOr<Options> Parse(const Node& node) {
    static const auto& functions = *new std::map<std::string, Function>{
        {"Sqrt", Function::kSqrt},         {"Exp", Function::kExp},
        {"Log", Function::kLog},           {"Abs", Function::kAbs},
        {"Negative", Function::kNegative}, {"Floor", Function::kFloor},
        {"Sigmoid", Function::kSigmoid},   {"Tanh", Function::kTanh},
        {"ReLU", Function::kRelu},         {"LogicalNot", Function::kNot}};
    const auto found = functions.find(node.op);
    if (found == functions.end()) {
      return Invalid("'", node.op, "' is no operator of one operand");
    }
    return found->second;
  }
  static absl::Status Shapes(Options function, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    switch (function) {
      case Function::kNot:
        BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", {DType::kBool}));
        break;
      case Function::kAbs:
      case Function::kNegative:
      case Function::kFloor:
      case Function::kRelu:
        BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", {DType::kF32, DType::kI64, DType::kI32}));
        break;
      default:
        BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", {DType::kF32}));
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static absl::Status Compute(Options function, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& in = *inputs[0];
    Tensor& out = outputs[0];
    switch (in.dtype()) {
      case DType::kF32:
        return MapFloat(function, in, out);
      case DType::kI64:
        return MapInteger<int64_t>(function, in, out);
      case DType::kI32:
        return MapInteger<int32_t>(function, in, out);
      default:
        return Map<bool>(in, out, [](bool x) { return !x; });
    }
  }
};

struct ClampOp {
  struct Options {
    double min = 0;
    double max = 0;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    BW_ASSIGN_OR_RETURN(options.min, node.attributes.Float("min", -kInfinity));
    BW_ASSIGN_OR_RETURN(options.max, node.attributes.Float("max", kInfinity));
    if (!(options.min <= options.max)) {
      return Invalid("attribute min ", options.min, " is not at most max ", options.max);
    }
    return options;
  }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", {DType::kF32, DType::kI64, DType::kI32}));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  template <typename T>
  static absl::Status Run(const Options& options, const Tensor& in, Tensor& out) {
    const auto bound = [](double value) {
      if constexpr (std::is_integral_v<T>) {
        constexpr double kLeast = static_cast<double>(std::numeric_limits<T>::min());
        // 2^31 or 2^63: above the largest value, and exact.
        return value <= kLeast    ? std::numeric_limits<T>::min()
               : value >= -kLeast ? std::numeric_limits<T>::max()
                                  : static_cast<T>(value);
      } else {
        return static_cast<T>(value);
      }
    };
    const T least = bound(std::is_integral_v<T> ? std::ceil(options.min) : options.min);
    const T most = bound(std::is_integral_v<T> ? std::floor(options.max) : options.max);
    return Map<T>(in, out, [least, most](T x) {
      const T raised = x < least ? least : x;
      return most < raised ? most : raised;
    });
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    switch (inputs[0]->dtype()) {
      case DType::kF32:
        return Run<float>(options, *inputs[0], outputs[0]);
      case DType::kI64:
        return Run<int64_t>(options, *inputs[0], outputs[0]);
      default:
        return Run<int32_t>(options, *inputs[0], outputs[0]);
    }
  }
};

struct SelectOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("auto_broadcast", "numpy"));
    if (mode != "numpy" && mode != "none") {
      return Invalid("attribute auto_broadcast: '", mode,
                     "' is not supported, only numpy and none");
    }
    return Options{};
  }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 3, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "condition", {DType::kBool}));
    if (inputs[1].dtype != inputs[2].dtype) {
      return Invalid("element types ", Name(inputs[1].dtype), " and ", Name(inputs[2].dtype),
                     " of then and else differ");
    }
    outputs[0].dtype = inputs[1].dtype;
    BW_ASSIGN_OR_RETURN(const PartialShape both,
                        BroadcastPartial(inputs[1].shape, inputs[2].shape));
    BW_ASSIGN_OR_RETURN(outputs[0].shape, BroadcastPartial(both, inputs[0].shape));
    return absl::OkStatus();
  }
  template <typename T>
  static void Run(absl::Span<const Tensor* const> inputs, Tensor& output) {
    const absl::Span<const int64_t> shapes[] = {inputs[0]->shape(), inputs[1]->shape(),
                                                inputs[2]->shape()};
    const bool* condition = inputs[0]->data<bool>();
    const T* then_data = reinterpret_cast<const T*>(inputs[1]->bytes());
    const T* else_data = reinterpret_cast<const T*>(inputs[2]->bytes());
    T* out = reinterpret_cast<T*>(output.mutable_bytes());
    BroadcastPlan(output.shape(), shapes)
        .ForEachRow([&](int64_t offset, int64_t count, const auto& at, const auto& step) {
          for (int64_t i = 0; i < count; ++i) {
            out[offset + i] = condition[at[0] + i * step[0]] ? then_data[at[1] + i * step[1]]
                                                             : else_data[at[2] + i * step[2]];
          }
        });
  }
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    switch (SizeOf(outputs[0].dtype())) {
      case 1:
        Run<uint8_t>(inputs, outputs[0]);
        break;
      case 2:
        Run<uint16_t>(inputs, outputs[0]);
        break;
      case 4:
        Run<uint32_t>(inputs, outputs[0]);
        break;
      default:
        Run<uint64_t>(inputs, outputs[0]);
    }
    return absl::OkStatus();
  }
};

struct ConvertOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("destination_type", ""));
    absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok()) {
      return Annotate(dtype.status(), "attribute destination_type");
    }
    return *dtype;
  }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    outputs[0].dtype = dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    absl::StatusOr<Tensor> converted = ops::Convert(input, output.dtype);
    BW_CHECK(converted.ok());  // both types are defined
    return *std::move(converted);
  }
};

}  // namespace

constinit const OperatorCode kUnary = CodeOf<UnaryOp>(&ElementwiseRows);
constinit const OperatorCode kClamp = CodeOf<ClampOp>(&ElementwiseRows);
constinit const OperatorCode kSelect = CodeOf<SelectOp>(&ElementwiseRows);
constinit const OperatorCode kConvert = CodeOf<ConvertOp>(&ElementwiseRows);

}  // namespace beamwright::ops
