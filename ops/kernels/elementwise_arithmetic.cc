// Elementwise operators on numbers, truth values and bits: arithmetic, comparison, logic, Select
// and conversions.
//
// Each operator is a struct with Parse (attributes), Shapes (checks and the output's shape) and
// Compute; CodeOf makes an operator of it (operator_code.h). Compute looks at the type once
// (VisitNumeric and its kin) and at the function once, and then runs a loop that was compiled for
// both. Types of 16 bits are widened to f32 first and rounded once at the end (WidensHalves). Rows
// of several requests stay apart wherever their axis is (ElementwiseRows).

#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_loops.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Element-wise arithmetic with two operands: Add, Subtract, Multiply, Divide, Power, Maximum,
// Minimum, FloorMod, Mod, SquaredDifference, with broadcasting (ApplyBinary).
//
// Integers wrap around, in unsigned arithmetic (WrapType), as overflow of signed integers is
// undefined in C++. Divisors are checked for 0 before anything is computed; the one quotient that
// overflows, the least integer / -1, wraps too. Divide rounds integers down, as Python does, unless
// m_pythondiv is false.

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

// By repeated squaring, modulo the type's range. A negative exponent gives the truncated fraction:
// 0, except for bases 1 and -1.
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

// FloorMod has the divisor's sign, Mod the dividend's. The least integer modulo -1 is 0, which the
// processor's division would trap on.
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

// Comparisons of two tensors with boolean results (ComparisonOp), and logical and bitwise operators
// (LogicalOp). ApplyBinary broadcasts the operands and calls a lambda for each pair of elements;
// there is one instance for each function and type, so that loops have no branch on the function.

namespace {

enum class Comparison {
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
  Comparison function = Comparison::kEqual;
  bool broadcast = true;
};

absl::StatusOr<BinaryOptions> ParseOptions(const Node& node) {
  static const auto& functions = *new std::map<std::string, Comparison>{
      {"Equal", Comparison::kEqual},     {"NotEqual", Comparison::kNotEqual},
      {"Less", Comparison::kLess},       {"LessEqual", Comparison::kLessEqual},
      {"Greater", Comparison::kGreater}, {"GreaterEqual", Comparison::kGreaterEqual},
      {"LogicalAnd", Comparison::kAnd},  {"LogicalOr", Comparison::kOr},
      {"LogicalXor", Comparison::kXor},  {"BitwiseAnd", Comparison::kAnd},
      {"BitwiseOr", Comparison::kOr},    {"BitwiseXor", Comparison::kXor}};
  const auto found = functions.find(node.op);
  if (found == functions.end()) {
    return Invalid("'", node.op, "' compares no two operands");
  }
  BinaryOptions options{found->second};
  BW_ASSIGN_OR_RETURN(options.broadcast, ParseAutoBroadcast(node));
  return options;
}

template <typename T>
absl::Status Compare(Comparison function, const Tensor& a, const Tensor& b, Tensor& out) {
  switch (function) {
    case Comparison::kEqual:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x == y; });
    case Comparison::kNotEqual:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x != y; });
    case Comparison::kLess:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x < y; });
    case Comparison::kLessEqual:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x <= y; });
    case Comparison::kGreater:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x > y; });
    default:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x >= y; });
  }
}

struct ComparisonOp {
  using Options = BinaryOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return ParseOptions(node); }
  static bool WidensHalves(const Options&) { return true; }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(BinaryShapes(options.broadcast, inputs, outputs));
    outputs[0].dtype = DType::kBool;
    return ExpectType(inputs[0], "inputs", kNumericAndBoolTypes);
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitArithmetic(inputs[0]->dtype(), [&](auto type) {
      return Compare<decltype(type)>(options.function, *inputs[0], *inputs[1], outputs[0]);
    });
  }
};

// Bit by bit; of boolean that is the logical operator.
template <typename T>
absl::Status Combine(Comparison function, const Tensor& a, const Tensor& b, Tensor& out) {
  switch (function) {
    case Comparison::kAnd:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return static_cast<T>(x & y); });
    case Comparison::kOr:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return static_cast<T>(x | y); });
    default:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return static_cast<T>(x ^ y); });
  }
}

// Logical operators take boolean alone, bitwise ones integers as well.
struct LogicalOp {
  struct Options {
    BinaryOptions binary;
    bool bitwise = false;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const BinaryOptions binary, ParseOptions(node));
    return Options{binary, absl::StartsWith(node.op, "Bitwise")};
  }
  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(BinaryShapes(options.binary.broadcast, inputs, outputs));
    return options.bitwise ? ExpectType(inputs[0], "inputs", kIntegerAndBoolTypes)
                           : ExpectType(inputs[0], "inputs", {DType::kBool});
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitIntegral(inputs[0]->dtype(), [&](auto type) {
      return Combine<decltype(type)>(options.binary.function, *inputs[0], *inputs[1], outputs[0]);
    });
  }
};

}  // namespace

constinit const OperatorCode kComparison = CodeOf<ComparisonOp>(&ElementwiseRows);
constinit const OperatorCode kLogical = CodeOf<LogicalOp>(&ElementwiseRows);

// Select (elements of one of two tensors by a condition, with broadcasting), Convert and
// ConvertLike (another type), and BitCast (the same bits under another type of the same width).
// Select moves elements as words of their size, whatever their type. A Convert to the type that the
// input has shares its buffer.

namespace {

struct SelectOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_RETURN_IF_ERROR(ParseAutoBroadcast(node).status());
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
    const T* then_data = Words<T>(*inputs[1]);
    const T* else_data = Words<T>(*inputs[2]);
    T* out = MutableWords<T>(output);
    BroadcastPlan(output.shape(), shapes)
        .ForEachRow(
            [&](int64_t offset, int64_t count, const PerOperand& at, const PerOperand& step) {
              for (int64_t i = 0; i < count; ++i) {
                out[offset + i] = condition[at[0] + i * step[0]] ? then_data[at[1] + i * step[1]]
                                                                 : else_data[at[2] + i * step[2]];
              }
            });
  }
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    VisitWord(outputs[0].dtype(), [&](auto type) { Run<decltype(type)>(inputs, outputs[0]); });
    return absl::OkStatus();
  }
};

Tensor Converted(const Tensor& input, const ValueInfo& output) {
  absl::StatusOr<Tensor> converted = ops::Convert(input, output.dtype);
  BW_CHECK(converted.ok());  // both types are defined
  return *std::move(converted);
}

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
    return Converted(input, output);
  }
};

// The same bits under another type of the same width. Boolean is not among them: any byte but 0 and
// 1 would not be one.
struct BitCastOp {
  using Options = DType;
  static absl::StatusOr<Options> Parse(const Node& node) { return ConvertOp::Parse(node); }
  static absl::Status Shapes(Options dtype, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, 1, outputs));
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "input", kNumericTypes));
    if (dtype == DType::kBool || SizeOf(dtype) != SizeOf(inputs[0].dtype)) {
      return Invalid("the bits of ", Name(inputs[0].dtype), " are not those of ", Name(dtype),
                     "; it must be a number of ", 8 * SizeOf(inputs[0].dtype), " bits");
    }
    outputs[0].dtype = dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static absl::Status Compute(Options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    if (inputs[0]->num_bytes() > 0) {
      std::memcpy(outputs[0].mutable_bytes(), inputs[0]->bytes(),
                  static_cast<size_t>(inputs[0]->num_bytes()));
    }
    return absl::OkStatus();
  }
};

// ConvertLike(data, like): of the second input only the type counts.
struct ConvertLikeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    outputs[0].dtype = inputs[1].dtype;
    outputs[0].shape = inputs[0].shape;
    return absl::OkStatus();
  }
  static Tensor Share(const Tensor& input, const ValueInfo& output) {
    return Converted(input, output);
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return ElementwiseRows(node, rows.subspan(0, 1), inputs.subspan(0, 1));
  }
};

}  // namespace

constinit const OperatorCode kSelect = CodeOf<SelectOp>(&ElementwiseRows);
constinit const OperatorCode kBitCast = CodeOf<BitCastOp>(&ElementwiseRows);
constinit const OperatorCode kConvert = CodeOf<ConvertOp>(&ElementwiseRows);
constinit const OperatorCode kConvertLike = CodeOf<ConvertLikeOp>(&ConvertLikeOp::Rows);

}  // namespace beamwright::ops
