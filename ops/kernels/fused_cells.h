// LSTM and GRU cells with the usual activations (ops/kernels/cell_parts.h) over packed weights. A
// tile of rows and hidden units goes through products and gates while its sums are in the cache:
// sums of all rows would be written to memory and read again, which costs more than the gates do. A
// step is one parallel region. The bits are those of the passes that ops/kernels/cells.cc makes for
// all other cells: a tile's extents decide nothing.
#ifndef BEAMWRIGHT_OPS_KERNELS_FUSED_CELLS_H_
#define BEAMWRIGHT_OPS_KERNELS_FUSED_CELLS_H_

#include "ops/graph/operator.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// What both cells read. Gates are in the order of the operator's weights.
struct FusedCell {
  const PackedMatMul* input = nullptr;      // W^T [input size, gates * hidden]; null: see x
  const PackedMatMul* recurrent = nullptr;  // R^T [hidden, gates * hidden]
  int64_t rows = 0;                         // of the result
  ConstMatrix<float> x;                     // [rows, input size], or the product itself, or
  const int64_t* x_rows = nullptr;          // a table of products, and each row's row in it
  ConstMatrix<float> h;                     // [rows, hidden], or a row for each family
  const float* bias = nullptr;              // B of the operator, or null

  // The product of `row` that was computed elsewhere.
  const float* ProductOf(int64_t row) const { return x.row(x_rows == nullptr ? row : x_rows[row]); }
};

// families: of the rows of h, and all else has a row for each row; null: h has one as well.
// Thread-safe.

// c, new_c, new_h [rows, hidden]: the LSTMCell operator's.
void RunFusedLstm(const ExecutionContext& context, const FusedCell& cell,
                  const RowFamilies* families, ConstMatrix<float> c, Matrix<float> new_c,
                  Matrix<float> new_h);

// The GRUCell operator's with linear_before_reset: B has 4 * hidden elements.
void RunFusedGru(const ExecutionContext& context, const FusedCell& cell,
                 const RowFamilies* families, Matrix<float> new_h);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_FUSED_CELLS_H_
