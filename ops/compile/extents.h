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

#include "ops/graph/inference.h"

namespace beamwright::ops {

// number * symbol * symbol ... Symbols from 0 on are extents of tensors, negative ones integers of
// which nothing is known.
struct Extent {
  int64_t number = 1;
  std::vector<int> symbols;  // ascending, repeats allowed

  bool is_number() const { return symbols.empty(); }
  // Whether it is 0 or more in every run.
  bool is_extent() const { return number >= 0 && (symbols.empty() || symbols.front() >= 0); }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// Nothing where the number would overflow.
std::optional<Extent> Product(const Extent& a, const Extent& b);
// a / b where it is known to leave no rest; nothing unless b's number is positive.
std::optional<Extent> Quotient(const Extent& a, const Extent& b);
std::optional<Extent> Product(absl::Span<const Extent> extents);
// Extent `place` of `extents` as NumPy aligns them with a shape of `rank` axes: 1 in front of them.
Extent AlignedAt(const std::vector<Extent>& extents, size_t rank, size_t place);

// What is known of one value.
struct ValueExtents {
  // Its shape; nothing if its rank is not known.
  std::optional<std::vector<Extent>> shape;
  // Of short lists (and scalars) of integers: each element. They may be negative. Of truth values:
  // 1 or 0.
  std::optional<std::vector<Extent>> elements;
  // Of integers of any number: what all elements equal.
  std::optional<Extent> all;
};

// Hands out symbols.
class Symbols {
 public:
  Extent New() { return Extent{1, {extents_++}}; }
  Extent NewInteger() { return Extent{1, {-++integers_}}; }
  int num_extents() const { return extents_; }

 private:
  int extents_ = 0;
  int integers_ = 0;
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

// Whether a loop's input is sliced into all its elements, one at a time, forwards or backwards.
bool TakesEveryElement(const LoopInput& rule);

// The Parameters of a graph that a search runs: all that have an axis given in `row_axes` (by
// Parameter, -1: none) share one symbol, `rows`, there, unless the extent is a number.
std::vector<ValueExtents> ParametersWithRows(const Graph& graph, const std::vector<int>& row_axes,
                                             const Extent& rows, Symbols& symbols);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_
