// Rows of outputs of a convolution over one channel, as depthwise convolutions have them: sums of
// shifted rows. Private to the convolutions in f32.
#ifndef BEAMWRIGHT_OPS_KERNELS_TAP_ROWS_H_
#define BEAMWRIGHT_OPS_KERNELS_TAP_ROWS_H_

#include <cstdint>

#include "ops/base/vector_isa.h"

namespace beamwright::ops {

// The operands of output x of row y are from[offsets[tap] + y * row_step + x].
struct Taps {
  const int64_t* offsets;  // [count]
  const float* weights;    // [count]
  int64_t count;
  int64_t row_step;
};

// out [height, width], dense: each from 0 one chain of fused multiply-adds in the order of the
// taps, in blocks of several rows, so that there are chains enough to hide their latency. Up to
// kTapSlack floats behind the last operand of a tap are read.
inline constexpr int64_t kTapSlack = 15;
void AddTaps(VectorIsa isa, const Taps& taps, const float* from, int64_t height, int64_t width,
             float* out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_TAP_ROWS_H_
