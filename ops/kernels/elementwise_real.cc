// Elementwise functions of real numbers: those without parameters, as one table, and activations
// that have parameters.
//
// A new function of one real number is a struct with operator() and a line in kFunctions: types,
// shapes and rows follow from kReal. Functions for f32 are written with this library's exp, log,
// tanh and sigmoid, which give the same bits on every processor; the others call the C library,
// whose last bits depend on its version (docs/numerics.md).

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_loops.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// Functions of real numbers without parameters: a table of name, f32 loop and f64 loop. f32 takes
// this library's own exp, log, tanh and sigmoid where there is one (ops/kernels/math.h), else the C
// library element by element, so that a result never depends on where an element stands.

namespace {

// One function of the C library under its name here.
#define BW_REAL_FUNCTION(Name, function) \
  struct Name {                          \
    template <typename T>                \
    T operator()(T x) const {            \
      return function(x);                \
    }                                    \
  }
BW_REAL_FUNCTION(SqrtOf, std::sqrt);
BW_REAL_FUNCTION(ErfOf, std::erf);
BW_REAL_FUNCTION(SinOf, std::sin);
BW_REAL_FUNCTION(CosOf, std::cos);
BW_REAL_FUNCTION(TanOf, std::tan);
BW_REAL_FUNCTION(AsinOf, std::asin);
BW_REAL_FUNCTION(AcosOf, std::acos);
BW_REAL_FUNCTION(AtanOf, std::atan);
BW_REAL_FUNCTION(SinhOf, std::sinh);
BW_REAL_FUNCTION(CoshOf, std::cosh);
BW_REAL_FUNCTION(AsinhOf, std::asinh);
BW_REAL_FUNCTION(AcoshOf, std::acosh);
BW_REAL_FUNCTION(AtanhOf, std::atanh);
BW_REAL_FUNCTION(ExpOf, Exp);
BW_REAL_FUNCTION(LogOf, Log);
BW_REAL_FUNCTION(TanhOf, Tanh);
BW_REAL_FUNCTION(SigmoidOf, Sigmoid);
#undef BW_REAL_FUNCTION

// min(max(x + 3, 0), 6) / 6
struct HSigmoidOf {
  template <typename T>
  T operator()(T x) const {
    const T raised = x + T{3} < T{0} ? T{0} : x + T{3};
    return (raised > T{6} ? T{6} : raised) / T{6};
  }
};
struct HSwishOf {
  template <typename T>
  T operator()(T x) const {
    return x * HSigmoidOf()(x);
  }
};
// x tanh(ln(1 + e^x)), where tanh(ln u) = (u^2 - 1) / (u^2 + 1). Beyond 20 the fraction is 1.
struct MishOf {
  template <typename T>
  T operator()(T x) const {
    const T e = Exp(x > T{20} ? T{20} : x);
    const T top = e * (e + T{2});
    return x > T{40} ? x : x * (top / (top + T{2}));
  }
};
// ln(1 + e^x) without overflow.
struct SoftPlusOf {
  template <typename T>
  T operator()(T x) const {
    return (x > T{0} ? x : T{0}) + std::log1p(Exp(x > T{0} ? -x : x));
  }
};
struct SoftSignOf {
  template <typename T>
  T operator()(T x) const {
    return x / (T{1} + (x < T{0} ? -x : x));
  }
};

struct RealFunction {
  absl::string_view name;
  absl::Status (*f32)(const Tensor& in, Tensor& out);
  absl::Status (*f64)(const Tensor& in, Tensor& out);
  bool integers = false;  // of integers as well
};

template <typename T, typename F>
absl::Status MapAll(const Tensor& in, Tensor& out) {
  return MapElements<T, T>(in, out, F());
}
template <typename F>
constexpr RealFunction OfNumbers(absl::string_view name) {
  return {name, &MapAll<float, F>, &MapAll<double, F>, true};
}
template <typename F>
constexpr RealFunction OfFloats(absl::string_view name) {
  return {name, &MapAll<float, F>, &MapAll<double, F>, false};
}

constexpr RealFunction kFunctions[] = {OfNumbers<SqrtOf>("Sqrt"),
                                       OfNumbers<ErfOf>("Erf"),
                                       OfNumbers<SinOf>("Sin"),
                                       OfNumbers<CosOf>("Cos"),
                                       OfNumbers<TanOf>("Tan"),
                                       OfNumbers<AsinOf>("Asin"),
                                       OfNumbers<AcosOf>("Acos"),
                                       OfNumbers<AtanOf>("Atan"),
                                       OfNumbers<SinhOf>("Sinh"),
                                       OfNumbers<CoshOf>("Cosh"),
                                       OfNumbers<AsinhOf>("Asinh"),
                                       OfNumbers<AcoshOf>("Acosh"),
                                       OfNumbers<AtanhOf>("Atanh"),
                                       OfNumbers<ExpOf>("Exp"),
                                       OfNumbers<LogOf>("Log"),
                                       OfNumbers<TanhOf>("Tanh"),
                                       OfNumbers<SigmoidOf>("Sigmoid"),
                                       OfFloats<HSigmoidOf>("HSigmoid"),
                                       OfFloats<HSwishOf>("HSwish"),
                                       OfFloats<MishOf>("Mish"),
                                       OfFloats<SoftPlusOf>("SoftPlus"),
                                       OfFloats<SoftSignOf>("SoftSign"),
                                       OfFloats<StableSoftPlusOf>(kStableSoftPlusName),
                                       OfFloats<GuardedSoftPlusOf>(kGuardedSoftPlusName)};

// Of integers: computed in f64, rounded to nearest, halves away from zero.
absl::Status OfIntegers(const RealFunction& function, const Tensor& in, Tensor& out) {
  BW_ASSIGN_OR_RETURN(const Tensor wide, Convert(in, DType::kF64));
  Tensor result(DType::kF64, in.shape());
  BW_RETURN_IF_ERROR(function.f64(wide, result));
  double* values = result.mutable_data<double>();
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    values[i] = std::round(values[i]);
  }
  BW_ASSIGN_OR_RETURN(out, Convert(result, out.dtype()));
  return absl::OkStatus();
}

struct RealOp {
  using Options = const RealFunction*;
  static absl::StatusOr<Options> Parse(const Node& node) {
    for (const RealFunction& function : kFunctions) {
      if (function.name == node.op) {
        return &function;
      }
    }
    return Invalid("'", node.op, "' is not a function of a real number");
  }
  static bool WidensHalves(Options) { return true; }
  static absl::Status Shapes(Options function, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return function->integers ? UnaryShapes(inputs, kNumericTypes, outputs)
                              : UnaryShapes(inputs, kFloatTypes, outputs);
  }
  static absl::Status Compute(Options function, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    switch (inputs[0]->dtype()) {
      case DType::kF32:
        return function->f32(*inputs[0], outputs[0]);
      case DType::kF64:
        return function->f64(*inputs[0], outputs[0]);
      default:
        return OfIntegers(*function, *inputs[0], outputs[0]);
    }
  }
};

}  // namespace

constinit const OperatorCode kReal = CodeOf<RealOp>(&ElementwiseRows);

// Activations with parameters, element by element: Clamp (attributes min, max), Elu and Gelu
// (attributes), HardSigmoid, Selu and Swish (parameters are inputs of one element), PReLU (a slope
// per channel or broadcast). Those without parameters are in elementwise_loops.cc.
//
// Each operator is a struct with Parse (attributes), Shapes (checks and the output's shape),
// Compute, and, where rows of several requests may stand on different axes, Rows; CodeOf makes an
// operator of it. MapElements applies a lambda to all elements of a contiguous tensor, which the
// compiler vectorizes.
//
// f16 and bf16 are widened to f32 first and rounded once at the end (WidensHalves).

namespace {

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
  static bool WidensHalves(const Options&) { return true; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return UnaryShapes(inputs, kNumericTypes, outputs);
  }
  template <typename T>
  static T Bound(double value) {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      // The largest value plus one is a power of two, and exact.
      return value <= static_cast<double>(Limits::min()) ? Limits::min()
             : value >= std::ldexp(1.0, Limits::digits)  ? Limits::max()
                                                         : static_cast<T>(value);
    } else {
      return static_cast<T>(value);
    }
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitNumeric(inputs[0]->dtype(), [&](auto type) {
      using T = decltype(type);
      const bool whole = std::is_integral_v<T>;
      const T least = Bound<T>(whole ? std::ceil(options.min) : options.min);
      const T most = Bound<T>(whole ? std::floor(options.max) : options.max);
      return MapElements<T, T>(*inputs[0], outputs[0], [least, most](T x) {
        const T raised = x < least ? least : x;
        return most < raised ? most : raised;
      });
    });
  }
};

// Elu: attribute alpha. Gelu: attribute approximation_mode.
struct AttributeActivationOp {
  enum class Function { kElu, kGelu, kGeluTanh };
  struct Options {
    Function function = Function::kElu;
    double alpha = 1;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    if (node.op == "Elu") {
      if (!node.attributes.Has("alpha")) {
        return Invalid("attribute alpha is required");
      }
      BW_ASSIGN_OR_RETURN(options.alpha, node.attributes.Float("alpha", 1));
      return options;
    }
    BW_ASSIGN_OR_RETURN(const std::string mode,
                        node.attributes.String("approximation_mode", "erf"));
    if (mode != "erf" && mode != "tanh") {
      return Invalid("attribute approximation_mode: '", mode,
                     "' is not supported, only erf and tanh");
    }
    options.function = mode == "erf" ? Function::kGelu : Function::kGeluTanh;
    return options;
  }
  static bool WidensHalves(const Options&) { return true; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    return UnaryShapes(inputs, kFloatTypes, outputs);
  }
  template <typename T>
  static absl::Status Run(const Options& options, const Tensor& in, Tensor& out) {
    const T alpha = static_cast<T>(options.alpha);
    switch (options.function) {
      case Function::kElu:
        return MapElements<T, T>(in, out,
                                 [alpha](T x) { return x < T{0} ? alpha * std::expm1(x) : x; });
      case Function::kGelu:
        // x (1 + erf(x / sqrt 2)) / 2, written so that nothing cancels below 0.
        return MapElements<T, T>(
            in, out, [](T x) { return x * T{0.5} * std::erfc(-x / std::numbers::sqrt2_v<T>); });
      default:
        return MapElements<T, T>(in, out, [](T x) {
          constexpr T kScale = std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;
          const T inner = kScale * (x + static_cast<T>(0.044715) * x * x * x);
          return x * T{0.5} * (T{1} + Tanh(inner));
        });
    }
  }
  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitFloat(inputs[0]->dtype(), [&](auto type) {
      return Run<decltype(type)>(options, *inputs[0], outputs[0]);
    });
  }
};

// Activations whose parameters are inputs of one element: HardSigmoid(data, alpha, beta),
// Selu(data, alpha, lambda), Swish(data[, beta]).
struct InputActivationOp {
  enum class Options { kHardSigmoid, kSelu, kSwish };
  static absl::StatusOr<Options> Parse(const Node& node) {
    return node.op == "HardSigmoid" ? Options::kHardSigmoid
           : node.op == "Selu"      ? Options::kSelu
                                    : Options::kSwish;
  }
  static bool WidensHalves(Options) { return true; }
  static absl::Status Shapes(Options function, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    static constexpr absl::string_view kNames[][2] = {
        {"alpha", "beta"}, {"alpha", "lambda"}, {"beta", ""}};
    const size_t most = function == Options::kSwish ? 2 : 3;
    if (function != Options::kSwish) {
      BW_RETURN_IF_ERROR(ExpectCounts(inputs, most, most, outputs));
    }
    BW_RETURN_IF_ERROR(UnaryShapes(inputs, kFloatTypes, outputs, most));
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (!Present(inputs, i)) {
        continue;
      }
      const absl::string_view name = kNames[static_cast<size_t>(function)][i - 1];
      const PartialShape& shape = inputs[i].shape;
      BW_RETURN_IF_ERROR(ExpectType(inputs[i], name, {inputs[0].dtype}));
      if (shape.has_rank() &&
          (shape.rank() > 1 || (shape.rank() == 1 && shape.dim(0) >= 0 && shape.dim(0) != 1))) {
        return Invalid(name, ": shape ", shape.ToString(), " must be that of one element");
      }
    }
    return absl::OkStatus();
  }
  template <typename T>
  static absl::Status Run(Options function, absl::Span<const Tensor* const> inputs, Tensor& out) {
    const auto parameter = [&](size_t i) {
      return i < inputs.size() && inputs[i]->has_value() ? *inputs[i]->data<T>() : T{1};
    };
    const T first = parameter(1);
    const T second = parameter(2);
    switch (function) {
      case Options::kHardSigmoid:
        return MapElements<T, T>(*inputs[0], out, [first, second](T x) {
          const T y = first * x + second;
          return y < T{0} ? T{0} : y > T{1} ? T{1} : y;
        });
      case Options::kSelu:
        return MapElements<T, T>(*inputs[0], out, [first, second](T x) {
          return second * (x > T{0} ? x : first * std::expm1(x));
        });
      default:
        return MapElements<T, T>(*inputs[0], out, [first](T x) { return x * Sigmoid(first * x); });
    }
  }
  static absl::Status Compute(Options function, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitFloat(inputs[0]->dtype(),
                      [&](auto type) { return Run<decltype(type)>(function, inputs, outputs[0]); });
  }
};

// PReLU(data, slope): x < 0 ? slope x : x. A slope of rank 1 as long as the channel axis (the
// second one; the only one of rank 1) runs along it, any other broadcasts as NumPy does.
struct PreluOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }
  static bool WidensHalves(const Options&) { return true; }

  static int ChannelAxis(int rank) { return rank > 1 ? 1 : 0; }
  static bool IsPerChannel(const PartialShape& data, const PartialShape& slope) {
    return data.rank() > 0 && slope.rank() == 1 &&
           data.dim(ChannelAxis(data.rank())) == slope.dim(0);
  }
  // The slope's shape, with axes of 1 appended so that it broadcasts along the channels.
  static Shape AlignedSlope(const PartialShape& data, const PartialShape& slope) {
    Shape dims = slope.dims();
    if (IsPerChannel(data, slope)) {
      dims.resize(static_cast<size_t>(data.rank() - ChannelAxis(data.rank())), 1);
    }
    return dims;
  }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    BW_RETURN_IF_ERROR(UnaryShapes(inputs, kFloatTypes, outputs, 2));
    BW_RETURN_IF_ERROR(ExpectType(inputs[1], "slope", {inputs[0].dtype}));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& slope = inputs[1].shape;
    if (!data.is_static() || !slope.is_static()) {
      return absl::OkStatus();
    }
    const absl::StatusOr<Shape> both = BroadcastShapes(data.dims(), AlignedSlope(data, slope));
    if (!both.ok() || *both != data.dims()) {
      return Invalid("slope: shape ", slope.ToString(), " does not broadcast to ", data.ToString());
    }
    return absl::OkStatus();
  }
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor slope = inputs[1]->Reshaped(
        AlignedSlope(PartialShape(inputs[0]->shape()), PartialShape(inputs[1]->shape())));
    return VisitFloat(inputs[0]->dtype(), [&](auto type) {
      using T = decltype(type);
      return ApplyBinary<T, T>(*inputs[0], slope, outputs[0],
                               [](T x, T s) { return x < T{0} ? x * s : x; });
    });
  }
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    const PartialShape& data = inputs[0].shape;
    const PartialShape& slope = inputs[1].shape;
    if (!data.has_rank() || slope.rank() != 1 || data.rank() < 2 || slope.dim(0) == 1) {
      return ElementwiseRows(node, rows, inputs);
    }
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    // Per channel or along the last axis: either way rows on another axis stay apart.
    return OnlyFirstHasRows(rows).has_value() && rows[0].axis != ChannelAxis(data.rank()) &&
                   rows[0].axis != data.rank() - 1
               ? rows[0]
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kClamp = CodeOf<ClampOp>(&ElementwiseRows);
constinit const OperatorCode kAttributeActivation = CodeOf<AttributeActivationOp>(&ElementwiseRows);
constinit const OperatorCode kInputActivation = CodeOf<InputActivationOp>(&ElementwiseRows);
constinit const OperatorCode kPrelu = CodeOf<PreluOp>(&PreluOp::Rows);

}  // namespace beamwright::ops
