// A graph made anew out of another one, node by node, for passes that put nodes in between, replace
// some or leave some out.
//
// Also for passes that take the product X * W^T out of a recurrent cell (CellProduct).
#ifndef BEAMWRIGHT_OPS_COMPILE_GRAPH_COPY_H_
#define BEAMWRIGHT_OPS_COMPILE_GRAPH_COPY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// Appends a node; its first output.
ValueId AppendNode(Graph& graph, Node node);
// Appends a Constant, which declares the type and shape of its value.
ValueId AppendConstant(Graph& graph, const std::string& name, Tensor value);
// A list of i64 [n].
ValueId AppendInts(Graph& graph, const std::string& name, absl::Span<const int64_t> values);
// A node of one output that works on `value` as its second input, a list of i64, says: Squeeze and
// its axes, Reshape and its pattern. Type and shape are left to inference.
ValueId AppendWithList(Graph& graph, const char* op, const std::string& name, ValueId value,
                       absl::Span<const int64_t> list);

class GraphCopy {
 public:
  // `from` must outlive the copy, and stay as it is.
  explicit GraphCopy(const Graph& from);

  // What was copied so far, to append nodes of one's own.
  Graph& to() { return to_; }

  // The value of the copy that stands for one of the old graph, whose node was kept or replaced.
  ValueId Of(ValueId old) const;
  // Another value stands for this one from now on.
  void Replace(ValueId old, ValueId value);

  // Node `index` of the old graph as it would be kept: reading values of the copy.
  Node Moved(int index) const;
  // Appends a node that stands for node `index`; the first output. A Result keeps the name of its
  // port, which may have been that of a value that was replaced.
  ValueId Keep(int index, Node node);
  ValueId Keep(int index) { return Keep(index, Moved(index)); }
  // Appends the nodes of a loop's or a branch's body, which read `parameters` (values of the copy,
  // in the order of body.parameters); what body.results read.
  std::vector<ValueId> Inline(const Graph& body, absl::Span<const ValueId> parameters);

  // The copy, those of the Parameters and Results that were kept in the order of the old graph's.
  Graph Finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<int> kept_;                     // by old node; -1: replaced, or not yet there
  std::vector<std::vector<ValueId>> values_;  // by old node and output
};

// By node those that read it, in their order; one that reads it twice, twice.
std::vector<std::vector<int>> ReadersByNode(const Graph& graph);

// Without the nodes that no Result needs; Parameters stay.
Graph DropUnneeded(const Graph& graph);

// The product X * W^T of a recurrent cell, taken out of it: where X is known before the step is
// (docs/architecture.md, 'Passes' and 'Tables'), the product is computed there, and the
// cell reads what came out. The bits are the same.

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

#endif  // BEAMWRIGHT_OPS_COMPILE_GRAPH_COPY_H_
