// Extents: what can be said of shapes before any run, beyond the numbers that inference knows. An
// extent that is not known is a symbol, and equal symbols are equal numbers in every run; so it can
// be proven that a list of lengths names every step of a sequence, or that a Reshape to the batch
// that a ShapeOf found keeps the rows that it was given.
//
// How an extent passes through an operator is read off Operator::rows, with the symbol in the place
// of the number of rows. A Loop is followed into its body.
#ifndef BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_
#define BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_

#include <memory>
#include <optional>
#include <vector>

#include "ops/compile/symbols.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// What is known of one value.
struct ValueExtents {
  // Its shape; nothing if its rank is not known.
  std::optional<std::vector<Extent>> shape;
  // Of short lists (and scalars) of integers: each element. They may be negative. Of truth values:
  // 1 or 0.
  std::optional<std::vector<Extent>> elements;
  // Of integers of any number: what all elements equal.
  std::optional<Extent> all;
  // And what no element is less, or more, than.
  std::optional<Extent> least = {};
  std::optional<Extent> most = {};
  // What all elements equal, of the value's type: one element; without a value: not known.
  Tensor fill = {};
};

class Extents {
 public:
  // `graph` and `info` as InferGraph leaves them. parameters: what is known of each Parameter, in
  // order; empty: what the graph declares.
  static Extents Find(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                      Symbols& symbols, const std::vector<ValueExtents>& parameters = {});

  const ValueExtents& of(ValueId id) const {
    return values_[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  }
  // Of an input of a node; of one that is absent nothing is known.
  const ValueExtents& of_input(const Node& node, size_t port) const;
  // Of the body of node `node`, a Loop; null for other nodes.
  const Extents* body(int node) const { return bodies_[static_cast<size_t>(node)].get(); }

 private:
  friend class ExtentsFinder;
  std::vector<std::vector<ValueExtents>> values_;  // by node and output
  std::vector<std::unique_ptr<Extents>> bodies_;   // by node
};

// Attribute of a Parameter, {axis, number}: on that axis it has the extent of all Parameters with
// the same number: those who fill them see to that.
inline constexpr char kSharedExtent[] = "shared_extent";

// Sets it, where the axis is there and the file leaves its extent open.
void ShareExtent(int64_t axis, int64_t number, Node& parameter);

// Whether a loop's input is sliced into all its elements, one at a time, forwards or backwards.
bool TakesEveryElement(const LoopInput& rule);

// The Parameters of a graph that a search runs: all that have an axis given in `row_axes` (by
// Parameter, -1: none) share one symbol, `rows`, there, unless the extent is a number; so do those
// with a kSharedExtent.
std::vector<ValueExtents> ParametersWithRows(const Graph& graph, const std::vector<int>& row_axes,
                                             const Extent& rows, Symbols& symbols);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_
