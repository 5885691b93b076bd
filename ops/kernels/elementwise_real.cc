// Functions of real numbers without parameters: a table of name, f32 loop and f64 loop. f32 takes
// this library's own exp, log, tanh and sigmoid where there is one (ops/kernels/math.h), else the C
// library element by element, so that a result never depends on where an element stands.
#include <cmath>
#include <numbers>

#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_unary.h"
#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/softplus.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
