// Extents: what can be said of shapes before any run, beyond the numbers that inference knows. An
// extent that is not known is a symbol, and equal symbols are equal numbers in every run; so it can
// be proven that a list of lengths names every step of a sequence, or that a Reshape to the batch
// that a ShapeOf found keeps the rows that it was given.
//
// How an extent passes through an operator is read off Operator::rows, with the symbol in the place
// of the number of rows. A Loop is followed into its body.
//
// Its parts are here too: symbols, and shapes that follow from the elements of inputs.
#ifndef BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_
#define BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Extents as numbers and symbols, and what can be computed of them without knowing the symbols:
// products, quotients, sums, and sums divided and rounded down.

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

// Hands out symbols, and knows which of them are sums of others, or sums divided by numbers: a
// cache that gets one place more has the extent L + 1, one symbol wherever it is computed.
class Symbols {
 public:
  Extent New() { return Extent{1, {extents_++}}; }
  Extent NewInteger() { return Extent{1, {-++integers_}}; }
  int num_extents() const { return extents_; }

  // a + b and a - b; nothing where a number would overflow.
  std::optional<Extent> Sum(const Extent& a, const Extent& b) { return Combine(a, b, 1); }
  std::optional<Extent> Difference(const Extent& a, const Extent& b) { return Combine(a, b, -1); }
  // a / divisor, rounded down; divisor: above 0. floor(floor(w / 2) / 2) is floor(w / 4), one
  // symbol wherever it is computed. Nothing where a number would overflow.
  std::optional<Extent> Floor(const Extent& a, int64_t divisor);
  // Whether a is at most b in every run, as far as that shows.
  bool AtMost(const Extent& a, const Extent& b);
  // The symbols that a symbol is made of: itself unless it is a sum or rounded.
  std::vector<int> Parts(int symbol) const;

 private:
  // Sums: products of symbols (none: a number), and how often each is taken.
  using Terms = std::map<std::vector<int>, int64_t>;

  // A symbol that is another sum, divided and rounded down.
  using Rounded = std::pair<Terms, int64_t>;

  bool AddTerms(const Extent& extent, int64_t sign, Terms& terms) const;
  Extent OfTerms(Terms terms);
  // Where the terms are floor(sum / n) + c: takes sum + c * n for them, and n times the divisor.
  bool Unnest(Terms& terms, int64_t& divisor) const;
  std::optional<Extent> Combine(const Extent& a, const Extent& b, int64_t sign);

  int extents_ = 0;
  int integers_ = 0;
  std::map<Terms, int> sums_;
  std::map<int, Terms> terms_;  // by symbol, of sums
  std::map<Rounded, int> floors_;
  std::map<int, Rounded> rounded_;  // by symbol
};

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

// Shapes that follow from the elements of a node's inputs, or from more than one of their extents:
// the target of a Reshape, the lists of a Slice, the sum of joined lengths, the number of windows.

// The shape of a node's first output, from what is known of its inputs; nothing where the operator
// is no such one, or too little is known. Extents that stay open get new symbols.
std::optional<std::vector<Extent>> ShapeByElements(const Node& node, const Extents& found,
                                                   Symbols& symbols);

// An axis counted from the front; nothing if there is no such axis, which inference has not seen
// where it knew no rank.
std::optional<size_t> AxisOf(int64_t axis, size_t rank);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_EXTENTS_H_
