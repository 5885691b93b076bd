// Operators that work element by element: arithmetic, comparison and logic under NumPy broadcasting
// (attribute auto_broadcast "numpy" or "none"; "pdpd" is refused), functions of one element,
// activations, Select and Convert.
//
// Types: arithmetic on all numeric types (integers wrap; integer division by zero is an error
// naming the element; f16 and bf16 are computed in f32 and rounded once), comparison on these and
// boolean, logic on boolean, Select and Convert on all types. NaN takes part as IEEE 754 says,
// except that Maximum and Minimum return their first operand when comparing is false.
#ifndef BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_H_
#define BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/kernels/math.h"
#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// elementwise_arithmetic.cc: Add, Subtract, Multiply, Divide (m_pythondiv: integers divide rounding
// down, the default, or towards zero), Power, Maximum, Minimum, FloorMod (sign of the divisor), Mod
// (sign of the dividend), SquaredDifference: distinguished by the node's op, as all of these are.
extern const OperatorCode kArithmetic;

// elementwise_arithmetic.cc
// Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual: boolean result.
extern const OperatorCode kComparison;
// LogicalAnd, LogicalOr, LogicalXor on boolean; BitwiseAnd, BitwiseOr, BitwiseXor on integers too.
extern const OperatorCode kLogical;

// elementwise_loops.cc
// Abs, Negative, Sign (of NaN: NaN), ReLU, Floor, Ceiling, Round (attribute mode half_to_even or
// half_away_from_zero); integers stay what they are where a function rounds.
extern const OperatorCode kUnary;
extern const OperatorCode kNot;  // LogicalNot on boolean, BitwiseNot on integers too
// IsNaN, IsInf (attributes detect_negative, detect_positive), IsFinite: boolean result.
extern const OperatorCode kClassify;

// elementwise_real.cc: Sqrt, Exp, Log, Erf, Sigmoid, Tanh, the trigonometric and hyperbolic
// functions and their inverses (of integers: computed in f64 and rounded to nearest); HSigmoid,
// HSwish, Mish, SoftPlus, SoftSign (floats only).
extern const OperatorCode kReal;

// elementwise_real.cc
extern const OperatorCode kClamp;  // to [min, max]; for integers min is rounded up and max down
// Elu (attribute alpha), Gelu (attribute approximation_mode erf or tanh).
extern const OperatorCode kAttributeActivation;
// HardSigmoid(data, alpha, beta), Selu(data, alpha, lambda), Swish(data[, beta]): parameters are
// tensors of one element.
extern const OperatorCode kInputActivation;
extern const OperatorCode kPrelu;  // data, slope

// elementwise_arithmetic.cc
extern const OperatorCode kSelect;       // condition, then, else
extern const OperatorCode kBitCast;      // bits as they are, as attribute destination_type
extern const OperatorCode kConvert;      // to attribute destination_type
extern const OperatorCode kConvertLike;  // data, like: to the type of like

// ln(1 + e^x) as exports spell it in several nodes, as one function with the bits of those nodes
// (ops/passes/elementwise_fusion.cc): StableSoftPlus and GuardedSoftPlus, operators in no file.

inline constexpr char kStableSoftPlusName[] = "StableSoftPlus";
inline constexpr char kGuardedSoftPlusName[] = "GuardedSoftPlus";

// Maximum(0, x) + Log(1 + Exp(-Abs(x)))
struct StableSoftPlusOf {
  template <typename T>
  BW_ALWAYS_INLINE T operator()(T x) const {
    return (T{0} < x ? x : T{0}) + Log(T{1} + Exp(-std::fabs(x)));
  }
};

// Log(Exp(x) + 1), but x where that is infinite.
struct GuardedSoftPlusOf {
  // Chosen among integers, as in Log: a branch would keep the loop from being vectorised.
  BW_ALWAYS_INLINE float operator()(float x) const {
    const uint32_t log = std::bit_cast<uint32_t>(Log(Exp(x) + 1.0f));
    const uint32_t is_infinite = 0u - static_cast<uint32_t>(log == uint32_t{kInfinityBits});
    return std::bit_cast<float>((log & ~is_infinite) | (std::bit_cast<uint32_t>(x) & is_infinite));
  }
  double operator()(double x) const {
    const double log = Log(Exp(x) + 1.0);
    return log == std::numeric_limits<double>::infinity() ? x : log;
  }
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_H_
