// Operators that work element by element: arithmetic, comparison and logic under NumPy broadcasting
// (attribute auto_broadcast "numpy" or "none"; "pdpd" is refused), functions of one element, Select
// and Convert.
//
// Types: arithmetic on f32, i32 and i64 (integers wrap; division by zero is an error naming the
// element), comparison on these and boolean, logic on boolean, Convert among all types. NaN takes
// part as IEEE 754 says, except that Maximum and Minimum return their first operand when comparing
// is false.
#ifndef BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_H_
#define BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_H_

#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// Add, Subtract, Multiply, Divide (m_pythondiv: integers divide rounding down, the default, or
// towards zero), Power, Maximum, Minimum, FloorMod (sign of the divisor), Mod (sign of the
// dividend), SquaredDifference: told apart by the node's op.
extern const OperatorCode kArithmetic;
// Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual: boolean result.
extern const OperatorCode kComparison;
// LogicalAnd, LogicalOr, LogicalXor.
extern const OperatorCode kLogical;
// Sqrt, Exp, Log, Abs, Negative, Floor, Sigmoid, Tanh, ReLU, LogicalNot.
extern const OperatorCode kUnary;
// Clamp to [min, max]; for integers min is rounded up and max down.
extern const OperatorCode kClamp;
// Select(condition, then, else): any element type for the last two.
extern const OperatorCode kSelect;
// Convert to destination_type.
extern const OperatorCode kConvert;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_H_
