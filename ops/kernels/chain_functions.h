// The functions of an ElementwiseChain, and of a convolution's end, over a block of elements: each
// a vectorised loop with the bits of the operator of that name.
#ifndef BEAMWRIGHT_OPS_KERNELS_CHAIN_FUNCTIONS_H_
#define BEAMWRIGHT_OPS_KERNELS_CHAIN_FUNCTIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace beamwright::ops {

// out[i] = f(a[i], b[i]) for i in [0, count); out overlaps neither. Functions of one operand do not
// read b, but Clamp, of which b is the two bounds.
using ElementApply = void (*)(const float* a, const float* b, int64_t count, float* out);

struct ElementFunction {
  absl::string_view op;
  int operands;  // 1 or 2
  ElementApply apply;
  // Of two operands: f(a[i], b[0]) and f(a[0], b[i]).
  ElementApply second_is_one = nullptr;
  ElementApply first_is_one = nullptr;
};

// Null: no chain has a function of this name.
const ElementFunction* FindElementFunction(absl::string_view op);

// values[i] = clamp(values[i] + bias, least, most): an Add and a Clamp, or a ReLU with the bounds 0
// and infinity, in one pass.
void AddAndClamp(float bias, float least, float most, int64_t count, float* values);

// Hard swish in one pass: with y = values[i] + bias it is y * clamp(y + shift, least, most),
// divided by `last` or multiplied with it.
struct HardSwish {
  float shift = 0;
  float least = 0;
  float most = 0;
  float last = 1;
  bool divides = false;
};
// biased: false leaves the bias out.
void ApplyHardSwish(const HardSwish& swish, bool biased, float bias, int64_t count, float* values);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CHAIN_FUNCTIONS_H_
