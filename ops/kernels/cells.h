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
#include "ops/kernels/operator_code.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// What a cell's kernel is as well: its steps on the matrices themselves, for a loop that has
// checked one step as a kernel and knows that all others are like it.
class CellSteps {
 public:
  virtual ~CellSteps() = default;
  // Whether ops/kernels/fused_cells.h runs it; only then is there a Step.
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
