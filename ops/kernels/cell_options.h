// What the nodes LSTMCell, GRUCell and RNNCell ask for, and the shapes that follow. Semantics:
// ops/kernels/cells.h. Private to ops/kernels.
#ifndef BEAMWRIGHT_OPS_KERNELS_CELL_OPTIONS_H_
#define BEAMWRIGHT_OPS_KERNELS_CELL_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/graph/operator.h"
#include "ops/kernels/activations.h"

namespace beamwright::ops {

enum class Cell { kLstm, kGru, kRnn };

struct CellOptions {
  Cell cell = Cell::kLstm;
  int64_t gates = 4;
  int64_t hidden = 0;
  std::vector<Activation> activations;
  float clip = 0;
  bool linear_before_reset = false;
  bool joined = false;
  bool input_forget = false;
  bool input_is_product = false;  // X is X * W^T already, [rows, gates * hidden], and W is absent
  // LSTM: X is X * W^T + H * R^T already, and W and R are absent.
  bool input_is_gates = false;

  // Input positions; -1: the form has no such input.
  int c() const { return cell == Cell::kLstm ? 2 : -1; }
  int w() const { return cell == Cell::kLstm ? 3 : 2; }
  int r() const { return joined ? w() : w() + 1; }  // joined: W holds both
  int b() const { return r() + 1; }
  int p() const { return cell == Cell::kLstm && !joined ? b() + 1 : -1; }
  // Sigmoid gates, tanh for all else, nothing clipped or tied: what ops/kernels/fused_cells.h runs.
  bool IsUsual() const;
  int64_t bias_size() const { return (gates + (linear_before_reset ? 1 : 0)) * hidden; }
};

// InvalidArgument names the attribute and what is allowed.
absl::StatusOr<CellOptions> ParseCell(const Node& node, Cell cell);

// Checks the inputs, and sets type and shape of the outputs, [rows, hidden] each. InvalidArgument
// names the input.
absl::Status CellShapes(const CellOptions& options, absl::Span<const InputInfo> inputs,
                        absl::Span<ValueInfo> outputs);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CELL_OPTIONS_H_
