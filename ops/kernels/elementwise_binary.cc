#include <cmath>
#include <limits>
#include <map>
#include <type_traits>

#include "ops/kernels/broadcast_loop.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

enum class Function {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kTruncatingDivide,
  kPower,
  kMaximum,
  kMinimum,
  kFloorMod,
  kMod,
  kSquaredDifference,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kXor,
};

struct BinaryOptions {
  Function function = Function::kAdd;
  bool broadcast = true;
};

absl::StatusOr<BinaryOptions> ParseBinary(const Node& node) {
  static const auto& functions = *new std::map<std::string, Function>{
      {"Add", Function::kAdd},           {"Subtract", Function::kSubtract},
      {"Multiply", Function::kMultiply}, {"Divide", Function::kDivide},
      {"Power", Function::kPower},       {"Maximum", Function::kMaximum},
      {"Minimum", Function::kMinimum},   {"FloorMod", Function::kFloorMod},
      {"Mod", Function::kMod},           {"SquaredDifference", Function::kSquaredDifference},
      {"Equal", Function::kEqual},       {"NotEqual", Function::kNotEqual},
      {"Less", Function::kLess},         {"LessEqual", Function::kLessEqual},
      {"Greater", Function::kGreater},   {"GreaterEqual", Function::kGreaterEqual},
      {"LogicalAnd", Function::kAnd},    {"LogicalOr", Function::kOr},
      {"LogicalXor", Function::kXor}};
  const auto found = functions.find(node.op);
  if (found == functions.end()) {
    return Invalid("'", node.op, "' is no operator of two operands");
  }
  BinaryOptions options{found->second};
  BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("auto_broadcast", "numpy"));
  if (mode != "numpy" && mode != "none") {
    return Invalid("attribute auto_broadcast: '", mode, "' is not supported, only numpy and none");
  }
  options.broadcast = mode == "numpy";
  if (options.function == Function::kDivide) {
    BW_ASSIGN_OR_RETURN(const bool rounds_down, node.attributes.Bool("m_pythondiv", true));
    options.function = rounds_down ? Function::kDivide : Function::kTruncatingDivide;
  }
  return options;
}

absl::Status BinaryShapes(const BinaryOptions& options, absl::Span<const InputInfo> inputs,
                          absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
  if (inputs[0].dtype != inputs[1].dtype) {
    return Invalid("element types ", Name(inputs[0].dtype), " and ", Name(inputs[1].dtype),
                   " of the inputs differ");
  }
  if (!options.broadcast && inputs[0].shape.has_rank() && inputs[1].shape.has_rank()) {
    bool equal = inputs[0].shape.rank() == inputs[1].shape.rank();
    for (int i = 0; equal && i < inputs[0].shape.rank(); ++i) {
      equal = MergeExtents(inputs[0].shape.dim(i), inputs[1].shape.dim(i)).ok();
    }
    if (!equal) {
      return Invalid("shapes ", inputs[0].shape.ToString(), " and ", inputs[1].shape.ToString(),
                     " differ, and auto_broadcast is none");
    }
  }
  outputs[0].dtype = inputs[0].dtype;
  BW_ASSIGN_OR_RETURN(outputs[0].shape, BroadcastPartial(inputs[0].shape, inputs[1].shape));
  return absl::OkStatus();
}

// out[i] = f(a[i], b[i]) over the broadcast result; one loop per pair of steps, so that each is a
// loop the compiler vectorises.
template <typename T, typename Out, typename F>
void Apply(const Tensor& left, const Tensor& right, Tensor& result, F f) {
  const absl::Span<const int64_t> shapes[] = {left.shape(), right.shape()};
  const BroadcastPlan plan(result.shape(), shapes);
  Out* const out_data = result.mutable_data<Out>();
  plan.ForEachRow([&](int64_t offset, int64_t count, const auto& offsets, const auto& steps) {
    const T* a = left.data<T>() + offsets[0];
    const T* b = right.data<T>() + offsets[1];
    Out* out = out_data + offset;
    if (steps[0] == 1 && steps[1] == 1) {
      for (int64_t i = 0; i < count; ++i) {
        out[i] = f(a[i], b[i]);
      }
    } else if (steps[0] == 1) {
      for (int64_t i = 0; i < count; ++i) {
        out[i] = f(a[i], *b);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        out[i] = f(*a, b[i * steps[1]]);
      }
    }
  });
}

// Integer arithmetic in the unsigned type: wraps instead of being undefined.
template <typename T>
T Wrapped(std::make_unsigned_t<T> value) {
  return static_cast<T>(value);
}

template <typename T>
T IntegerPower(T base, T exponent) {
  using U = std::make_unsigned_t<T>;
  if (exponent < 0) {
    return base == 1 ? T{1} : base == -1 ? (exponent % 2 == 0 ? T{1} : T{-1}) : T{0};
  }
  U result = 1;
  U factor = static_cast<U>(base);
  for (U rest = static_cast<U>(exponent); rest != 0; rest >>= 1) {
    result *= (rest & 1) != 0 ? factor : U{1};
    factor *= factor;
  }
  return Wrapped<T>(result);
}

// The divisor is not zero (checked before); the one overflow, min / -1, wraps.
template <typename T>
T Quotient(T a, T b, bool rounds_down) {
  if (b == -1) {
    return Wrapped<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  const T quotient = a / b;
  return rounds_down && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

template <typename T>
T Remainder(T a, T b, bool sign_of_divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = std::fmod(a, b);
    return sign_of_divisor && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  } else {
    if (b == -1) {
      return 0;
    }
    const T rest = a % b;
    return sign_of_divisor && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

template <typename T>
absl::Status CheckDivisor(const Tensor& divisor) {
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 0; i < divisor.num_elements(); ++i) {
      if (divisor.data<T>()[i] == 0) {
        return Invalid("divisor, element ", i, " of ", ToString(divisor.shape()),
                       ": division by zero");
      }
    }
  }
  return absl::OkStatus();
}

template <typename T>
void Divide(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  const bool down = function == Function::kDivide;
  switch (function) {
    case Function::kDivide:
    case Function::kTruncatingDivide:
      if constexpr (std::is_floating_point_v<T>) {
        return Apply<T, T>(a, b, out, [](T x, T y) { return x / y; });
      } else {
        return Apply<T, T>(a, b, out, [down](T x, T y) { return Quotient(x, y, down); });
      }
    case Function::kFloorMod:
      return Apply<T, T>(a, b, out, [](T x, T y) { return Remainder(x, y, true); });
    default:
      return Apply<T, T>(a, b, out, [](T x, T y) { return Remainder(x, y, false); });
  }
}

template <typename T>
void Arithmetic(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                        std::type_identity<T>>::type;
  const auto apply = [&](auto f) {
    Apply<T, T>(a, b, out,
                [f](T x, T y) { return static_cast<T>(f(static_cast<U>(x), static_cast<U>(y))); });
  };
  switch (function) {
    case Function::kAdd:
      return apply([](U x, U y) { return x + y; });
    case Function::kSubtract:
      return apply([](U x, U y) { return x - y; });
    case Function::kMultiply:
      return apply([](U x, U y) { return x * y; });
    case Function::kSquaredDifference:
      return apply([](U x, U y) { return (x - y) * (x - y); });
    case Function::kMaximum:
      return Apply<T, T>(a, b, out, [](T x, T y) { return x < y ? y : x; });
    case Function::kMinimum:
      return Apply<T, T>(a, b, out, [](T x, T y) { return y < x ? y : x; });
    case Function::kPower:
      if constexpr (std::is_integral_v<T>) {
        return Apply<T, T>(a, b, out, [](T x, T y) { return IntegerPower(x, y); });
      } else {
        return Apply<T, T>(a, b, out, [](T x, T y) { return std::pow(x, y); });
      }
    default:
      return Divide<T>(function, a, b, out);
  }
}

template <typename T>
void Compare(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  switch (function) {
    case Function::kEqual:
      return Apply<T, bool>(a, b, out, [](T x, T y) { return x == y; });
    case Function::kNotEqual:
      return Apply<T, bool>(a, b, out, [](T x, T y) { return x != y; });
    case Function::kLess:
      return Apply<T, bool>(a, b, out, [](T x, T y) { return x < y; });
    case Function::kLessEqual:
      return Apply<T, bool>(a, b, out, [](T x, T y) { return x <= y; });
    case Function::kGreater:
      return Apply<T, bool>(a, b, out, [](T x, T y) { return x > y; });
    default:
      return Apply<T, bool>(a, b, out, [](T x, T y) { return x >= y; });
  }
}

struct ArithmeticOp {
  using Options = BinaryOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseBinary(node); }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(BinaryShapes(options, inputs, outputs));
    return ExpectType(inputs[0], "inputs", {DType::kF32, DType::kI64, DType::kI32});
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const auto run = [&](auto type) -> absl::Status {
      using T = decltype(type);
      if (options.function == Function::kDivide || options.function == Function::kMod ||
          options.function == Function::kTruncatingDivide ||
          options.function == Function::kFloorMod) {
        BW_RETURN_IF_ERROR(CheckDivisor<T>(*inputs[1]));
      }
      Arithmetic<T>(options.function, *inputs[0], *inputs[1], outputs[0]);
      return absl::OkStatus();
    };
    switch (inputs[0]->dtype()) {
      case DType::kF32:
        return run(float{});
      case DType::kI64:
        return run(int64_t{});
      default:
        return run(int32_t{});
    }
  }
};

struct ComparisonOp {
  using Options = BinaryOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseBinary(node); }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(BinaryShapes(options, inputs, outputs));
    outputs[0].dtype = DType::kBool;
    return ExpectType(inputs[0], "inputs", {DType::kF32, DType::kI64, DType::kI32, DType::kBool});
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    switch (inputs[0]->dtype()) {
      case DType::kF32:
        Compare<float>(options.function, *inputs[0], *inputs[1], outputs[0]);
        break;
      case DType::kI64:
        Compare<int64_t>(options.function, *inputs[0], *inputs[1], outputs[0]);
        break;
      case DType::kI32:
        Compare<int32_t>(options.function, *inputs[0], *inputs[1], outputs[0]);
        break;
      default:
        Compare<bool>(options.function, *inputs[0], *inputs[1], outputs[0]);
    }
    return absl::OkStatus();
  }
};

struct LogicalOp {
  using Options = BinaryOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseBinary(node); }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(BinaryShapes(options, inputs, outputs));
    return ExpectType(inputs[0], "inputs", {DType::kBool});
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const auto apply = [&](auto f) {
      Apply<bool, bool>(*inputs[0], *inputs[1], outputs[0], f);
      return absl::OkStatus();
    };
    switch (options.function) {
      case Function::kAnd:
        return apply([](bool x, bool y) { return x && y; });
      case Function::kOr:
        return apply([](bool x, bool y) { return x || y; });
      default:
        return apply([](bool x, bool y) { return x != y; });
    }
  }
};

}  // namespace

constinit const OperatorCode kArithmetic = CodeOf<ArithmeticOp>(&ElementwiseRows);
constinit const OperatorCode kComparison = CodeOf<ComparisonOp>(&ElementwiseRows);
constinit const OperatorCode kLogical = CodeOf<LogicalOp>(&ElementwiseRows);

}  // namespace beamwright::ops
