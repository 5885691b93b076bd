// The log-sum-exp that every softmax over a vocabulary in a search takes.
#ifndef BEAMWRIGHT_OPS_KERNELS_LOG_SUM_EXP_H_
#define BEAMWRIGHT_OPS_KERNELS_LOG_SUM_EXP_H_

#include "absl/types/span.h"

namespace beamwright::ops {

// log(sum of exp(x - largest)) + largest: blocks of 256 in f32 lanes, blocks added in double, all
// in ascending order, which follows from the count alone. -infinity if `largest`, the largest of
// the values, is that; at least `largest` otherwise.
float LogSumExp(absl::Span<const float> values, float largest);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_LOG_SUM_EXP_H_
