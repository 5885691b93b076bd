// Element-wise arithmetic with two operands: Add, Subtract, Multiply, Divide, Power, Maximum,
// Minimum, FloorMod, Mod, SquaredDifference, with broadcasting (ApplyBinary).
//
// Integers wrap around, in unsigned arithmetic (WrapType), as overflow of signed integers is
// undefined in C++. Divisors are checked for 0 before anything is computed; the one quotient that
// overflows, the least integer / -1, wraps too. Divide rounds integers down, as Python does, unless
// m_pythondiv is false.
#include <cmath>
#include <map>

#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_binary.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/types.h"

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
};

template <typename T>
T IntegerPower(T base, T exponent) {
  using U = WrapType<T>;
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      return base == 1 ? T{1} : base == -1 ? (exponent % 2 == 0 ? T{1} : T{-1}) : T{0};
    }
  }
  U result = 1;
  U factor = static_cast<U>(base);
  for (U rest = static_cast<U>(exponent); rest != 0; rest >>= 1) {
    result *= (rest & 1) != 0 ? factor : U{1};
    factor *= factor;
  }
  return static_cast<T>(result);
}

// The divisor is not zero (checked before); the one overflow, min / -1, wraps.
template <typename T>
T Quotient(T a, T b, bool rounds_down) {
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) {
      return static_cast<T>(0 - static_cast<WrapType<T>>(a));
    }
    if (rounds_down && a % b != 0 && (a < 0) != (b < 0)) {
      return static_cast<T>(a / b - 1);
    }
  }
  return static_cast<T>(a / b);
}

template <typename T>
T Remainder(T a, T b, bool sign_of_divisor) {
  if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(a % b);
  } else {
    T rest;
    if constexpr (std::is_floating_point_v<T>) {
      rest = std::fmod(a, b);
    } else {
      rest = b == -1 ? T{0} : static_cast<T>(a % b);
    }
    return sign_of_divisor && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
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
absl::Status Divide(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  BW_RETURN_IF_ERROR(CheckDivisor<T>(b));
  const bool down = function == Function::kDivide;
  switch (function) {
    case Function::kDivide:
    case Function::kTruncatingDivide:
      if constexpr (std::is_floating_point_v<T>) {
        return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return x / y; });
      } else {
        return ApplyBinary<T, T>(a, b, out, [down](T x, T y) { return Quotient(x, y, down); });
      }
    case Function::kFloorMod:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return Remainder(x, y, true); });
    default:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return Remainder(x, y, false); });
  }
}

// A power of 2 is a product: it is the same, rounded once, and vectorized.
template <typename T>
absl::Status Power(const Tensor& a, const Tensor& b, Tensor& out) {
  if constexpr (std::is_integral_v<T>) {
    return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return IntegerPower(x, y); });
  } else if (b.num_elements() == 1 && b.data<T>()[0] == T{2}) {
    return ApplyBinary<T, T>(a, b, out, [](T x, T) { return x * x; });
  } else {
    return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return std::pow(x, y); });
  }
}

template <typename T>
absl::Status Arithmetic(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  using U = WrapType<T>;
  const auto apply = [&](auto f) {
    return ApplyBinary<T, T>(a, b, out, [f](T x, T y) {
      return static_cast<T>(f(static_cast<U>(x), static_cast<U>(y)));
    });
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
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return x < y ? y : x; });
    case Function::kMinimum:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return y < x ? y : x; });
    case Function::kPower:
      return Power<T>(a, b, out);
    default:
      return Divide<T>(function, a, b, out);
  }
}

struct ArithmeticOp {
  struct Options {
    Function function = Function::kAdd;
    bool broadcast = true;
  };

  static absl::StatusOr<Options> Parse(const Node& node) {
    static const auto& functions = *new std::map<std::string, Function>{
        {"Add", Function::kAdd},           {"Subtract", Function::kSubtract},
        {"Multiply", Function::kMultiply}, {"Divide", Function::kDivide},
        {"Power", Function::kPower},       {"Maximum", Function::kMaximum},
        {"Minimum", Function::kMinimum},   {"FloorMod", Function::kFloorMod},
        {"Mod", Function::kMod},           {"SquaredDifference", Function::kSquaredDifference}};
    const auto found = functions.find(node.op);
    if (found == functions.end()) {
      return Invalid("'", node.op, "' is not an arithmetic operator");
    }
    Options options{found->second};
    BW_ASSIGN_OR_RETURN(options.broadcast, ParseAutoBroadcast(node));
    BW_ASSIGN_OR_RETURN(const bool rounds_down, node.attributes.Bool("m_pythondiv", true));
    if (options.function == Function::kDivide && !rounds_down) {
      options.function = Function::kTruncatingDivide;
    }
    return options;
  }
  static bool WidensHalves(const Options&) { return true; }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(BinaryShapes(options.broadcast, inputs, outputs));
    return ExpectType(inputs[0], "inputs", kNumericTypes);
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitNumeric(inputs[0]->dtype(), [&](auto type) {
      return Arithmetic<decltype(type)>(options.function, *inputs[0], *inputs[1], outputs[0]);
    });
  }
};

}  // namespace

constinit const OperatorCode kArithmetic = CodeOf<ArithmeticOp>(&ElementwiseRows);

}  // namespace beamwright::ops
