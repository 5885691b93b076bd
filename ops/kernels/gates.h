// What recurrent cells do between their products, in one pass over a row for the usual activations
// (sigmoid gates, tanh candidates, no clipping, no peepholes). The same bits as the passes that
// ops/kernels/cells.cc makes for all others.
#ifndef BEAMWRIGHT_OPS_KERNELS_GATES_H_
#define BEAMWRIGHT_OPS_KERNELS_GATES_H_

#include <cstdint>

namespace beamwright::ops {

// What the gates read: sums before activation, parts of `count` elements each, so far apart as the
// strides say, in the order of the operator's weights. The input's part and the bias are added
// first, then the state's part, which is a sum from zero: rows that continue one state share it.
struct CellSums {
  const float* input = nullptr;
  int64_t input_stride = 0;
  const float* recurrent = nullptr;
  int64_t recurrent_stride = 0;
  const float* bias = nullptr;  // or null: none
  int64_t bias_stride = 0;
};

// Parts f, i, c, o. new_cell = s(f) cell + s(i) tanh(c), new_hidden = s(o) tanh(new_cell). Nothing
// overlaps.
void LstmGates(const CellSums& sums, const float* cell, int64_t count, float* new_cell,
               float* new_hidden);

// Parts z, r, h; the bias has a fourth one, which is added to the state's part of h. new_hidden =
// (1 - s(z)) tanh(h) + s(z) old, with z and r the sums of all parts, and h the input's part plus
// s(r) times the state's. Nothing overlaps.
void GruGates(const CellSums& sums, const float* old, int64_t count, float* new_hidden);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_GATES_H_
