// The product X * W^T of a recurrent cell, taken out of it: where X is known before the step is
// (docs/architecture.md, 'Passes' and 'Tables'), the product is computed there, and the
// cell reads what came out. The bits are the same.
#ifndef BEAMWRIGHT_OPS_COMPILE_CELL_PRODUCT_H_
#define BEAMWRIGHT_OPS_COMPILE_CELL_PRODUCT_H_

#include <optional>

#include "ops/graph/operator.h"

namespace beamwright::ops {

struct CellProduct {
  size_t weight = 0;    // input of the cell that holds W, [gates * hidden, width]
  bool joined = false;  // W and R stand in one matrix, [gates * hidden, width + hidden]
};

// LSTMCell, GRUCell or RNNCell.
bool IsCell(const Node& node);

// Nothing if the node is not a cell that still multiplies X with a known W, a matrix of f32.
std::optional<CellProduct> FindCellProduct(const Node& node, absl::Span<const InputInfo> inputs);

// Columns [first, first + count) of an f32 matrix.
Tensor Columns(const Tensor& matrix, int64_t first, int64_t count);

// Makes a cell take `product` in the place of X and W. recurrent: R, for cells that had it in one
// matrix with W; else not looked at.
void TakeProduct(const CellProduct& found, ValueId product, ValueId recurrent, Node& cell);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_CELL_PRODUCT_H_
