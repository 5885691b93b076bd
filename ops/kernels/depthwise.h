// Depthwise convolutions in f32: rows of outputs over one channel, and, where a chunk has few
// positions, channels as lanes.
#ifndef BEAMWRIGHT_OPS_KERNELS_DEPTHWISE_H_
#define BEAMWRIGHT_OPS_KERNELS_DEPTHWISE_H_

#include <cstdint>

#include "ops/base/vector_isa.h"
#include "ops/kernels/convolution.h"

namespace beamwright::ops {

// Depthwise convolutions over few positions, as those of zipformers and conformers that read a
// chunk at a time: lanes are channels. Private to the convolutions in f32.

// Whether RunChannelLanes takes this convolution, and is faster than rows of positions
// (ops/kernels/depthwise.h), whose vectors few positions leave half empty.
bool LanesAreChannels(VectorIsa isa, const ConvolutionGeometry& geometry);

// As FloatConvolution::Run, to the same bits.
void RunChannelLanes(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                     const float* filter, const float* in, float* out);

// Rows of outputs of a convolution over one channel, as depthwise convolutions have them: sums of
// shifted rows. Private to the convolutions in f32.

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

#endif  // BEAMWRIGHT_OPS_KERNELS_DEPTHWISE_H_
