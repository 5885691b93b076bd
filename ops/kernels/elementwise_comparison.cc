// Comparisons of two tensors with boolean results (ComparisonOp), and logical and bitwise operators
// (LogicalOp). ApplyBinary broadcasts the operands and calls a lambda for each pair of elements;
// there is one instance for each function and type, so that loops have no branch on the function.
#include <map>

#include "absl/strings/match.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_binary.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

enum class Function {
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
  Function function = Function::kEqual;
  bool broadcast = true;
};

absl::StatusOr<BinaryOptions> ParseOptions(const Node& node) {
  static const auto& functions = *new std::map<std::string, Function>{
      {"Equal", Function::kEqual},     {"NotEqual", Function::kNotEqual},
      {"Less", Function::kLess},       {"LessEqual", Function::kLessEqual},
      {"Greater", Function::kGreater}, {"GreaterEqual", Function::kGreaterEqual},
      {"LogicalAnd", Function::kAnd},  {"LogicalOr", Function::kOr},
      {"LogicalXor", Function::kXor},  {"BitwiseAnd", Function::kAnd},
      {"BitwiseOr", Function::kOr},    {"BitwiseXor", Function::kXor}};
  const auto found = functions.find(node.op);
  if (found == functions.end()) {
    return Invalid("'", node.op, "' compares no two operands");
  }
  BinaryOptions options{found->second};
  BW_ASSIGN_OR_RETURN(options.broadcast, ParseAutoBroadcast(node));
  return options;
}

template <typename T>
absl::Status Compare(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  switch (function) {
    case Function::kEqual:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x == y; });
    case Function::kNotEqual:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x != y; });
    case Function::kLess:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x < y; });
    case Function::kLessEqual:
      return ApplyBinary<T, bool>(a, b, out, [](T x, T y) { return x <= y; });
    case Function::kGreater:
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
absl::Status Combine(Function function, const Tensor& a, const Tensor& b, Tensor& out) {
  switch (function) {
    case Function::kAnd:
      return ApplyBinary<T, T>(a, b, out, [](T x, T y) { return static_cast<T>(x & y); });
    case Function::kOr:
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

}  // namespace beamwright::ops
