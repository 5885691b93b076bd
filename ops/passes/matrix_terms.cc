// How a layer's formula is read from a graph: JoinStateUpdates asks whether a value is a sum of
// products of matrices and vectors, however the export has written it. The same outer product key *
// value^T may be a MatMul of a column with a row, a Multiply of [.., k, 1] with [.., 1, v], or an
// Einsum "bhk,bhv->bhkv".
//
// 1. AddTerms splits a sum of matrices into terms, with their signs.
// 2. AddFactors splits a term into factors: through Multiply, Broadcast, outer products (AddOuter)
//    and Einsum (AddEinsum). What is no known product is a factor by itself.
// 3. ReadFrom recognizes a contraction of a matrix with a vector: MatMul, ReduceSum of a product,
//    or Einsum.
// 4. AddVectorFactors and AreSame compare vectors by their factors, whatever the order.
//
// Plain, Unshaped and MatrixOf look through nodes that change no element: conversions to the same
// type, axes of 1, rows joined with heads. Shapes are checked at each step (Is, IsFull): a value of
// another shape is not part of the formula.
#include "ops/passes/matrix_terms.h"

#include <algorithm>
#include <utility>

namespace beamwright::ops {

// The shape with the factor's additional axes of 1; nothing if it is not known.
std::optional<Shape> MatrixTerms::ShapeOf(const Factor& factor) const {
  const PartialShape& shape = ShapeOf(factor.value);
  if (!shape.has_rank()) {
    return std::nullopt;
  }
  Shape dims = shape.dims();
  for (const int64_t axis : factor.axes) {
    if (axis > static_cast<int64_t>(dims.size())) {
      return std::nullopt;
    }
    dims.insert(dims.begin() + axis, 1);
  }
  return dims;
}

// The last two extents; 1 where an axis is missing.
std::optional<MatrixShape> MatrixTerms::LastTwo(const Factor& factor) const {
  const std::optional<Shape> shape = ShapeOf(factor);
  if (!shape.has_value()) {
    return std::nullopt;
  }
  const size_t rank = shape->size();
  return MatrixShape{rank < 2 ? 1 : (*shape)[rank - 2], rank < 1 ? 1 : shape->back()};
}
// The value behind conversions to the same type.
ValueId MatrixTerms::Plain(ValueId id) const {
  while (NodeOf(id).op == "Convert" &&
         graph_.info(NodeOf(id).inputs[0]).dtype == graph_.info(id).dtype) {
    id = NodeOf(id).inputs[0];
  }
  return id;
}
// The value behind reshapes that add or remove axes of 1, or split the first axis.
ValueId MatrixTerms::Unshaped(ValueId id) const {
  while (true) {
    id = Plain(id);
    const Node& node = NodeOf(id);
    if ((node.op != "Reshape" && node.op != "Squeeze" && node.op != "Unsqueeze") ||
        !KeepsLast(ShapeOf(node.inputs[0]), ShapeOf(id))) {
      return id;
    }
    id = node.inputs[0];
  }
}
// Whether shapes have the same last extent above 1.
bool MatrixTerms::KeepsLast(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) {
    return false;
  }
  const auto last = [](const PartialShape& shape) {
    for (size_t i = shape.dims().size(); i-- > 0;) {
      if (shape.dims()[i] != 1) {
        return shape.dims()[i];
      }
    }
    return int64_t{1};
  };
  return last(a) == last(b) && last(a) > 1;
}

// 1. The terms of a sum of matrices; false: the value is no such sum.
bool MatrixTerms::AddTerms(ValueId id, MatrixShape of, bool negative,
                           std::vector<Term>& terms) const {
  constexpr size_t kMostTerms = 4;
  id = Plain(id);
  const Node& node = NodeOf(id);
  if (!IsFull({id, {}}, of) || terms.size() > kMostTerms) {
    return false;
  }
  if (node.op == "Add" || node.op == "Subtract") {
    return AddTerms(node.inputs[0], of, negative, terms) &&
           AddTerms(node.inputs[1], of, negative != (node.op == "Subtract"), terms);
  }
  terms.push_back({{}, negative});
  AddFactors({id, {}}, of, terms.back().factors);
  return true;
}

// 2. The factors of a matrix; what is not known to be a product is a factor.
void MatrixTerms::AddFactors(const Factor& factor, MatrixShape of, Factors& factors) const {
  const ValueId id = Plain(factor.value);
  const Node& node = NodeOf(id);
  if (info_.IsKnown(id.node) || !factor.axes.empty() || !IsFull({id, {}}, of)) {
    factors.push_back({id, factor.axes});
  } else if (Multiplies(node)) {
    AddFactors({node.inputs[0], {}}, of, factors);
    AddFactors({node.inputs[1], {}}, of, factors);
  } else if (node.op == "Broadcast" && ShapeOf(node.inputs[0]).has_rank() &&
             ShapeOf(node.inputs[0]).rank() >= 2 &&
             node.attributes.String("mode", "numpy").value_or("") != "explicit") {
    AddFactors({node.inputs[0], {}}, of, factors);
  } else if (!AddOuter(node, of, factors) && !AddEinsum(node, of, factors)) {
    factors.push_back({id, {}});
  }
}

// A MatMul of a column with a row.
bool MatrixTerms::AddOuter(const Node& node, MatrixShape of, Factors& factors) const {
  if (node.op != "MatMul") {
    return false;
  }
  const Factor a = {node.inputs[0], {}};
  const Factor b = {node.inputs[1], {}};
  if (Transposes(node, "transpose_a") || Transposes(node, "transpose_b") || !Is(a, of.m, 1) ||
      !Is(b, 1, of.n)) {
    return false;
  }
  factors.push_back(a);
  factors.push_back(b);
  return true;
}

std::optional<MatrixTerms::Letters> MatrixTerms::LettersOf(const Node& node) const {
  if (node.op != "Einsum") {
    return std::nullopt;
  }
  absl::StatusOr<EinsumEquation> parsed =
      ParseEinsum(node.attributes.String("equation", "").value_or(""));
  if (!parsed.ok() || parsed->inputs.size() != node.inputs.size()) {
    return std::nullopt;
  }
  const auto plain = [](const std::vector<Label>& labels) {
    std::vector<Label> sorted = labels;
    std::sort(sorted.begin(), sorted.end());
    return std::find(sorted.begin(), sorted.end(), kEllipsis) == sorted.end() &&
           std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  };
  if (!plain(parsed->output) || !std::all_of(parsed->inputs.begin(), parsed->inputs.end(), plain)) {
    return std::nullopt;
  }
  return Letters{parsed->inputs, parsed->output};
}
// An input as a factor of a value with axes `all`; nothing if its axes are others or in another
// order.
std::optional<Factor> MatrixTerms::Spread(ValueId value, const std::vector<Label>& own,
                                          const std::vector<Label>& all) {
  Factor factor = {value, {}};
  size_t at = 0;
  for (size_t axis = 0; axis < all.size(); ++axis) {
    if (at < own.size() && own[at] == all[axis]) {
      ++at;
    } else {
      factor.axes.push_back(static_cast<int64_t>(axis));
    }
  }
  return at == own.size() ? std::optional(factor) : std::nullopt;
}

bool MatrixTerms::AddEinsum(const Node& node, MatrixShape of, Factors& factors) const {
  const std::optional<Letters> letters = LettersOf(node);
  if (!letters.has_value()) {
    return false;
  }
  Factors found;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    std::optional<Factor> factor = Spread(node.inputs[i], letters->inputs[i], letters->output);
    if (!factor.has_value()) {
      return false;
    }
    const bool fits = Is(*factor, of.m, 1) || Is(*factor, 1, of.n) || Is(*factor, 1, 1) ||
                      Is(*factor, of.m, of.n);
    if (!fits) {
      return false;
    }
    found.push_back(*std::move(factor));
  }
  factors.insert(factors.end(), found.begin(), found.end());
  return true;
}

// Reads the value as a contraction of a matrix with a vector; nothing if it is something else.
std::optional<Contraction> MatrixTerms::ReadFrom(ValueId id, MatrixShape of) const {
  id = Unshaped(id);
  const Node& node = NodeOf(id);
  if (node.op == "MatMul") {
    const Factor a = {node.inputs[0], {}};
    const Factor b = {node.inputs[1], {}};
    const bool turn_a = Transposes(node, "transpose_a");
    const bool turn_b = Transposes(node, "transpose_b");
    const int64_t keys_a = turn_a ? of.m : of.n;
    const int64_t keys_b = turn_b ? of.n : of.m;
    if (IsFull(a, of) && (turn_b ? Is(b, 1, keys_a) : Is(b, keys_a, 1))) {
      return Contraction{MatrixOf(a.value, of), b, !turn_a};
    }
    if (IsFull(b, of) && (turn_a ? Is(a, keys_b, 1) : Is(a, 1, keys_b))) {
      return Contraction{MatrixOf(b.value, of), a, turn_b};
    }
  } else if (node.op == "ReduceSum") {
    const Node& product = NodeOf(Plain(node.inputs[0]));
    const Tensor* const axes = info_.InputsOf(graph_, node)[1].value;
    const absl::StatusOr<std::vector<int64_t>> list =
        axes == nullptr ? absl::StatusOr<std::vector<int64_t>>(std::vector<int64_t>())
                        : ToInt64(*axes);
    if (!Multiplies(product) || !list.ok() || list->size() != 1 ||
        !IsFull({Plain(node.inputs[0]), {}}, of)) {
      return std::nullopt;
    }
    const int64_t rank = ShapeOf(node.inputs[0]).rank();
    const int64_t axis = list->front() < 0 ? list->front() + rank : list->front();
    for (const size_t side : {0, 1}) {
      const ValueId full = product.inputs[side];
      const Factor vector = {product.inputs[1 - side], {}};
      const bool over_last = axis == rank - 1;
      if (IsFull({full, {}}, of) && (over_last ? Is(vector, 1, of.n) : Is(vector, of.m, 1)) &&
          axis >= rank - 2) {
        return Contraction{MatrixOf(full, of), vector, over_last};
      }
    }
  } else if (const std::optional<Letters> letters = LettersOf(node);
             letters.has_value() && node.inputs.size() == 2) {
    for (const size_t side : {0, 1}) {
      const std::vector<Label>& all = letters->inputs[side];
      const std::optional<Factor> vector =
          Spread(node.inputs[1 - side], letters->inputs[1 - side], all);
      if (!vector.has_value() || !IsFull({node.inputs[side], {}}, of)) {
        continue;
      }
      for (const size_t from_end : {1, 2}) {
        std::vector<Label> rest = all;
        rest.erase(rest.end() - static_cast<std::ptrdiff_t>(from_end));
        const bool over_last = from_end == 1;
        if (rest == letters->output && (over_last ? Is(*vector, 1, of.n) : Is(*vector, of.m, 1))) {
          return Contraction{MatrixOf(node.inputs[side], of), *vector, over_last};
        }
      }
    }
  }
  return std::nullopt;
}
// The matrix behind reshapes that join rows with heads.
ValueId MatrixTerms::MatrixOf(ValueId id, MatrixShape of) const {
  while (true) {
    id = Plain(id);
    const Node& node = NodeOf(id);
    if (node.op != "Reshape" || !IsFull({node.inputs[0], {}}, of)) {
      return id;
    }
    id = node.inputs[0];
  }
}

// The factors of a vector, behind reshapes.
void MatrixTerms::AddVectorFactors(const Factor& factor, Factors& factors) const {
  const ValueId id = Unshaped(factor.value);
  const Node& node = NodeOf(id);
  if (Multiplies(node) && !info_.IsKnown(id.node)) {
    AddVectorFactors({node.inputs[0], {}}, factors);
    AddVectorFactors({node.inputs[1], {}}, factors);
  } else {
    factors.push_back({id, {}});
  }
}
bool MatrixTerms::AreSame(const Factors& a, const Factors& b) const {
  const auto ids = [&](const Factors& list) {
    Factors parts;
    for (const Factor& factor : list) {
      AddVectorFactors(factor, parts);
    }
    std::vector<std::pair<int, int>> found;
    for (const Factor& factor : parts) {
      found.emplace_back(factor.value.node, factor.value.output);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  return ids(a) == ids(b);
}

}  // namespace beamwright::ops
