// Values whose elements are all the same, or lie between extents: masks that hide nothing, as
// exporters compute them in each step of a decoder.
#ifndef BEAMWRIGHT_OPS_COMPILE_FILLED_VALUES_H_
#define BEAMWRIGHT_OPS_COMPILE_FILLED_VALUES_H_

#include <vector>

#include "ops/compile/extents.h"

namespace beamwright::ops {

// `least`, `most` and `fill` of the only output of `node`, whose inputs `found` knows, and whose
// elements are known as far as they are. computed: the output, if it is known at load.
void FindFill(const Node& node, const Tensor& computed, const Extents& found,
              const OperatorSet& operators, Symbols& symbols, ValueExtents& value);

// Which input of an addition is all that it gives: the other is zeros that only softmaxes see, or
// negative zeros. -1: neither. `output`: what is known of the sum; readers: who read it.
int AddsNothing(const Node& node, const ValueExtents& output, const Extents& found,
                const std::vector<const Node*>& readers);

// A node of a graph, and what is known of the graph.
struct FoldedNode {
  const Graph& graph;
  const GraphInfo& info;
  const Extents& found;
  int index = -1;
  const std::vector<int>& readers;  // nodes that read it
  std::vector<bool>& freed;         // nodes before it whose output may have lost its shape

  const Node& node() const { return graph.node(index); }
};

// Inputs of an elementwise node that are filled with one number each become constants of one
// element, which are appended to `folded`, where nothing is lost by that: another input has the
// shape of the output, or whatever reads the output has another input of its shape. `node`: the
// node in `folded`, to be changed. Whether there were any. Called for the nodes in their order.
bool FoldFills(const FoldedNode& from, Node& node, Graph& folded);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_FILLED_VALUES_H_
