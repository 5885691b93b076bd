// Values of a step graph as sums and products over the last two axes of a state, which is a matrix
// for each row and head: what JoinStateUpdates looks for. Private to passes/.
#ifndef BEAMWRIGHT_OPS_PASSES_MATRIX_TERMS_H_
#define BEAMWRIGHT_OPS_PASSES_MATRIX_TERMS_H_

#include <optional>
#include <vector>

#include "ops/graph/inference.h"
#include "ops/kernels/einsum.h"

namespace beamwright::ops {

// The last two axes of a state, or of a matrix that is taken for one.
struct MatrixShape {
  int64_t m = 0;
  int64_t n = 0;
};

// A value that has extents of 1 where `axes` says.
struct Factor {
  ValueId value;
  std::vector<int64_t> axes;  // for Unsqueeze
  friend bool operator==(const Factor&, const Factor&) = default;
};
using Factors = std::vector<Factor>;

struct Term {
  Factors factors;
  bool negative = false;
};

// The sum over one axis of a matrix, times a vector.
struct Contraction {
  ValueId matrix;
  Factor vector;
  bool over_last = false;
};

// `graph` and `info`, as InferGraph leaves them, must outlive it.
class MatrixTerms {
 public:
  MatrixTerms(const Graph& graph, const GraphInfo& info) : graph_(graph), info_(info) {}

  const Node& NodeOf(ValueId id) const { return graph_.node(id.node); }
  const PartialShape& ShapeOf(ValueId id) const { return graph_.info(id).shape; }
  // Shape with the axes of a factor put in; none: not known.
  std::optional<Shape> ShapeOf(const Factor& factor) const;
  // The last two extents; 1 where an axis is missing.
  std::optional<MatrixShape> LastTwo(const Factor& factor) const;
  bool Is(const Factor& factor, int64_t m, int64_t n) const {
    const std::optional<MatrixShape> last = LastTwo(factor);
    return last.has_value() && last->m == m && last->n == n;
  }
  bool IsFull(const Factor& factor, MatrixShape of) const { return Is(factor, of.m, of.n); }

  bool Multiplies(const Node& node) const {
    return node.op == "Multiply" &&
           node.attributes.String("auto_broadcast", "numpy").value_or("") == "numpy";
  }
  bool Transposes(const Node& node, const char* which) const {
    return node.attributes.Bool(which, false).value_or(false);
  }

  // Past nodes that change nothing.
  ValueId Plain(ValueId id) const;
  // Past those that put axes of 1 in, leave them out, or part the first axis.
  ValueId Unshaped(ValueId id) const;

  // Appends the terms of a sum of matrices; false: the value is no such sum.
  bool AddTerms(ValueId id, MatrixShape of, bool negative, std::vector<Term>& terms) const;
  // Appends the factors of a matrix; what is not known to be a product is a factor.
  void AddFactors(const Factor& factor, MatrixShape of, Factors& factors) const;
  // Whether two products of vectors have the same factors.
  bool AreSame(const Factors& a, const Factors& b) const;
  // What is read from a matrix with a vector; none: the value is something else.
  std::optional<Contraction> ReadFrom(ValueId id, MatrixShape of) const;

 private:
  struct Letters {
    std::vector<std::vector<Label>> inputs;
    std::vector<Label> output;
  };

  static bool KeepsLast(const PartialShape& a, const PartialShape& b);
  bool AddOuter(const Node& node, MatrixShape of, Factors& factors) const;
  bool AddEinsum(const Node& node, MatrixShape of, Factors& factors) const;
  std::optional<Letters> LettersOf(const Node& node) const;
  static std::optional<Factor> Spread(ValueId value, const std::vector<Label>& own,
                                      const std::vector<Label>& all);
  ValueId MatrixOf(ValueId id, MatrixShape of) const;
  void AddVectorFactors(const Factor& factor, Factors& factors) const;

  const Graph& graph_;
  const GraphInfo& info_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_PASSES_MATRIX_TERMS_H_
