// Depthwise convolutions over few positions, as those of zipformers and conformers that read a
// chunk at a time: lanes are channels. Private to the convolutions in f32.
#ifndef BEAMWRIGHT_OPS_KERNELS_CHANNEL_LANES_H_
#define BEAMWRIGHT_OPS_KERNELS_CHANNEL_LANES_H_

#include "ops/base/vector_isa.h"
#include "ops/kernels/convolution.h"

namespace beamwright::ops {

// Whether RunChannelLanes takes this convolution, and is faster than rows of positions
// (ops/kernels/tap_rows.h), whose vectors few positions leave half empty.
bool LanesAreChannels(VectorIsa isa, const ConvolutionGeometry& geometry);

// As FloatConvolution::Run, to the same bits.
void RunChannelLanes(int num_threads, const ConvolutionGeometry& geometry, int64_t items,
                     const float* filter, const float* in, float* out);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CHANNEL_LANES_H_
