#include "ops/kernels/gates.h"

#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

// The pointers of a lambda's captures are not restrict; those of these functions are, so that the
// loops need no checks for overlap.
BW_ALWAYS_INLINE inline void LstmLoop(const float* __restrict gates, const float* __restrict cell,
                                      int64_t count, float* __restrict new_cell,
                                      float* __restrict new_hidden) {
  for (int64_t k = 0; k < count; ++k) {
    const float f = Sigmoid(gates[k]);
    const float i = Sigmoid(gates[count + k]);
    const float g = Tanh(gates[2 * count + k]);
    const float c = f * cell[k] + i * g;
    new_cell[k] = c;
    new_hidden[k] = Sigmoid(gates[3 * count + k]) * Tanh(c);
  }
}

template <bool kBias>
BW_ALWAYS_INLINE inline void GruLoop(const GruSums& sums, const float* __restrict old,
                                     int64_t count, float* __restrict new_hidden) {
  const float* __restrict const xz = sums.input;
  const float* __restrict const xr = xz + sums.input_stride;
  const float* __restrict const xh = xr + sums.input_stride;
  const float* __restrict const hz = sums.recurrent;
  const float* __restrict const hr = hz + sums.recurrent_stride;
  const float* __restrict const hh = hr + sums.recurrent_stride;
  const float* __restrict const bz = sums.bias;
  const float* __restrict const br = kBias ? bz + sums.bias_stride : nullptr;
  const float* __restrict const bh = kBias ? br + sums.bias_stride : nullptr;
  const float* __restrict const bhh = kBias ? bh + sums.bias_stride : nullptr;
  for (int64_t k = 0; k < count; ++k) {
    const float z = Sigmoid((kBias ? xz[k] + bz[k] : xz[k]) + hz[k]);
    const float r = Sigmoid((kBias ? xr[k] + br[k] : xr[k]) + hr[k]);
    const float g = Tanh((kBias ? xh[k] + bh[k] : xh[k]) + r * (hh[k] + (kBias ? bhh[k] : 0.0f)));
    new_hidden[k] = (1.0f - z) * g + z * old[k];
  }
}

}  // namespace

void LstmGates(const float* gates, const float* cell, int64_t count, float* new_cell,
               float* new_hidden) {
  Vectorized([=]() BW_ALWAYS_INLINE { LstmLoop(gates, cell, count, new_cell, new_hidden); });
}

void GruGates(const GruSums& sums, const float* old, int64_t count, float* new_hidden) {
  if (sums.bias == nullptr) {
    Vectorized([=]() BW_ALWAYS_INLINE { GruLoop<false>(sums, old, count, new_hidden); });
  } else {
    Vectorized([=]() BW_ALWAYS_INLINE { GruLoop<true>(sums, old, count, new_hidden); });
  }
}

}  // namespace beamwright::ops
