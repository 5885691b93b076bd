#include "ops/kernels/gates.h"

#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

// The pointers of a lambda's captures are not restrict; those of these functions are, so that the
// loops need no checks for overlap.
template <bool kBias>
BW_ALWAYS_INLINE inline void LstmLoop(const CellSums& sums, const float* __restrict cell,
                                      int64_t count, float* __restrict new_cell,
                                      float* __restrict new_hidden) {
  const float* __restrict const xf = sums.input;
  const float* __restrict const xi = xf + sums.input_stride;
  const float* __restrict const xc = xi + sums.input_stride;
  const float* __restrict const xo = xc + sums.input_stride;
  const float* __restrict const hf = sums.recurrent;
  const float* __restrict const hi = hf + sums.recurrent_stride;
  const float* __restrict const hc = hi + sums.recurrent_stride;
  const float* __restrict const ho = hc + sums.recurrent_stride;
  const float* __restrict const bf = sums.bias;
  const float* __restrict const bi = kBias ? bf + sums.bias_stride : nullptr;
  const float* __restrict const bc = kBias ? bi + sums.bias_stride : nullptr;
  const float* __restrict const bo = kBias ? bc + sums.bias_stride : nullptr;
  for (int64_t k = 0; k < count; ++k) {
    const float f = Sigmoid((kBias ? xf[k] + bf[k] : xf[k]) + hf[k]);
    const float i = Sigmoid((kBias ? xi[k] + bi[k] : xi[k]) + hi[k]);
    const float g = Tanh((kBias ? xc[k] + bc[k] : xc[k]) + hc[k]);
    const float o = Sigmoid((kBias ? xo[k] + bo[k] : xo[k]) + ho[k]);
    const float c = f * cell[k] + i * g;
    new_cell[k] = c;
    new_hidden[k] = o * Tanh(c);
  }
}

template <bool kBias>
BW_ALWAYS_INLINE inline void GruLoop(const CellSums& sums, const float* __restrict old,
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

void LstmGates(const CellSums& sums, const float* cell, int64_t count, float* new_cell,
               float* new_hidden) {
  if (sums.bias == nullptr) {
    Vectorized([=]()
                   BW_ALWAYS_INLINE { LstmLoop<false>(sums, cell, count, new_cell, new_hidden); });
  } else {
    Vectorized([=]() BW_ALWAYS_INLINE { LstmLoop<true>(sums, cell, count, new_cell, new_hidden); });
  }
}

void GruGates(const CellSums& sums, const float* old, int64_t count, float* new_hidden) {
  if (sums.bias == nullptr) {
    Vectorized([=]() BW_ALWAYS_INLINE { GruLoop<false>(sums, old, count, new_hidden); });
  } else {
    Vectorized([=]() BW_ALWAYS_INLINE { GruLoop<true>(sums, old, count, new_hidden); });
  }
}

}  // namespace beamwright::ops
