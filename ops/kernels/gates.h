// What recurrent cells do between their products, in one pass over a row for the usual activations
// (sigmoid gates, tanh candidates, no clipping, no peepholes). The same bits as the passes that
// ops/kernels/cells.cc makes for all others.
#ifndef BEAMWRIGHT_OPS_KERNELS_GATES_H_
#define BEAMWRIGHT_OPS_KERNELS_GATES_H_

#include <cstdint>

namespace beamwright::ops {

// gates: sums before activation, f, i, c, o of `hidden` elements each. new_cell = s(f) cell +
// s(i) tanh(c), new_hidden = s(o) tanh(new_cell). Nothing overlaps.
void LstmGates(const float* gates, const float* cell, int64_t hidden, float* new_cell,
               float* new_hidden);

// gates: sums of the input's part, z, r, h; recurrent: the state's part of the same, which is
// added to z and r, and to h under s(r) together with `bias` ([hidden] or null). new_hidden =
// (1 - s(z)) tanh(h) + s(z) old. Nothing overlaps.
void GruGates(const float* gates, const float* recurrent, const float* bias, const float* old,
              int64_t hidden, float* new_hidden);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_GATES_H_
