// Recurrent cells, one time step: LSTMCell, GRUCell, RNNCell as OpenVINO defines them. f32, or f16
// and bf16 computed in f32.
//
// X [rows, I], H and C [rows, S] (S = hidden_size, required and checked against the weights).
// W [g S, I], R [g S, S], B [g S] (optional: zeros), g gates in the order
//   LSTM f, i, c, o;  GRU z, r, h;  RNN one.
// LSTMCell: X, H, C, W, R[, B[, P]]; P [3 S]: peepholes f, i, o. With attribute weights_joined the
// older form X, H, C, W [4 S, I + S][, B]: columns of W multiply X first, then H.
// Outputs H' (and C' for LSTM). GRUCell and RNNCell: X, H, W, R[, B]. With linear_before_reset
// GRU's B is [4 S]: z, r, h's input part, h's recurrent part.
//
// With attribute input_is_product X is X * W^T already, and W is absent; with input_is_gates (LSTM)
// it is X * W^T + H * R^T, and W and R are absent.
//
// clip > 0 bounds what goes into each gate's activation (not the h(C') of LSTM). With input_forget
// LSTM's forget gate is 1 - i, as ONNX means it (OpenVINO means i = 1 - f: its files are refused).
// A negative clip and a weights_format other than fico are refused. Weights known at load are
// packed (ops/kernels/packed_matmul.h). A row's result never depends on the other rows.
#ifndef BEAMWRIGHT_OPS_KERNELS_CELLS_H_
#define BEAMWRIGHT_OPS_KERNELS_CELLS_H_

#include "absl/types/span.h"
#include "ops/base/precision.h"
#include "ops/graph/operator.h"
#include "ops/kernels/operator_code.h"
#include "ops/kernels/packed_matmul.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// LSTM and GRU cells with the usual activations (ops/kernels/cell_parts.h) over packed weights. A
// tile of rows and hidden units goes through products and gates while its sums are in the cache:
// sums of all rows would be written to memory and read again, which costs more than the gates do. A
// step is one parallel region. The bits are those of the passes that ops/kernels/cells.cc makes for
// all other cells: a tile's extents decide nothing.

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

// What a cell's kernel is as well: its steps on the matrices themselves, for a loop that has
// checked one step as a kernel and knows that all others are like it.
class CellSteps {
 public:
  virtual ~CellSteps() = default;
  // Whether ops/kernels/cells.h runs it; only then is there a Step.
  virtual bool IsFused() const = 0;
  // Where the node reads B; there need not be one.
  virtual int bias_input() const = 0;
  // x: [rows, ..], the node's first input; bias: its B or null; states: [rows, hidden] each, H and,
  // of an LSTM, C; next: the same after the step, in other memory. Thread-safe.
  virtual void Step(const ExecutionContext& context, ConstMatrix<float> x, const float* bias,
                    absl::Span<const float* const> states, absl::Span<float* const> next) const = 0;
};

// With packed weights in this precision.
const OperatorCode& LstmCellIn(Precision weights);
const OperatorCode& GruCellIn(Precision weights);
const OperatorCode& RnnCellIn(Precision weights);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CELLS_H_
