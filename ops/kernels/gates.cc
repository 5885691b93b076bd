#include "ops/kernels/gates.h"

#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

// The pointers of a lambda's captures are not restrict; those of these functions are, so that the
// loops need no checks for overlap.
BW_ALWAYS_INLINE inline void LstmLoop(const float* __restrict gates, const float* __restrict cell,
                                      int64_t hidden, float* __restrict new_cell,
                                      float* __restrict new_hidden) {
  for (int64_t k = 0; k < hidden; ++k) {
    const float f = Sigmoid(gates[k]);
    const float i = Sigmoid(gates[hidden + k]);
    const float g = Tanh(gates[2 * hidden + k]);
    const float c = f * cell[k] + i * g;
    new_cell[k] = c;
    new_hidden[k] = Sigmoid(gates[3 * hidden + k]) * Tanh(c);
  }
}

template <bool kBias>
BW_ALWAYS_INLINE inline void GruLoop(const float* __restrict gates,
                                     const float* __restrict recurrent,
                                     const float* __restrict bias, const float* __restrict old,
                                     int64_t hidden, float* __restrict new_hidden) {
  for (int64_t k = 0; k < hidden; ++k) {
    const float z = Sigmoid(gates[k] + recurrent[k]);
    const float r = Sigmoid(gates[hidden + k] + recurrent[hidden + k]);
    const float b = kBias ? bias[k] : 0.0f;
    const float g = Tanh(gates[2 * hidden + k] + r * (recurrent[2 * hidden + k] + b));
    new_hidden[k] = (1.0f - z) * g + z * old[k];
  }
}

}  // namespace

void LstmGates(const float* gates, const float* cell, int64_t hidden, float* new_cell,
               float* new_hidden) {
  Vectorized([=]() BW_ALWAYS_INLINE { LstmLoop(gates, cell, hidden, new_cell, new_hidden); });
}

void GruGates(const float* gates, const float* recurrent, const float* bias, const float* old,
              int64_t hidden, float* new_hidden) {
  if (bias == nullptr) {
    Vectorized([=]() BW_ALWAYS_INLINE {
      GruLoop<false>(gates, recurrent, bias, old, hidden, new_hidden);
    });
  } else {
    Vectorized(
        [=]() BW_ALWAYS_INLINE { GruLoop<true>(gates, recurrent, bias, old, hidden, new_hidden); });
  }
}

}  // namespace beamwright::ops
