// Einsum as a chain of matrix products, by example "bhqd,bhkd->bhqk" (scores of attention):
//
// 1. Contraction::Run takes the inputs from left to right; each pair becomes one operand
//    (Multiply).
// 2. RolesOf gives each label of a pair its role: in both and needed later (batch: b, h), in one
//    and needed later (rows: q; columns: k), in both and not needed (depth: d), in one and not
//    needed (left_alone, right_alone).
// 3. Without sums labels away that only one operand has.
// 4. Multiply computes, for each batch and row, all columns: offsets into the data are listed once
//    for each role (StridesOf, Offsets), so that no operand is transposed or copied. A repeated
//    label of one operand is its diagonal: the stride is the sum of both axes'.
// 5. Sum gives the last operand the order of axes of the output.
//
// Terms are added in ascending order of the depth labels: an element's bits follow from its own
// operands.
#include "ops/kernels/einsum.h"

#include <algorithm>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

// Reads equations of Einsum, such as "bij,bjk->bik": letters name axes, "..." those without a
// letter.
//
// 1. Parsing: terms become lists of labels. Without "->" the output has the ellipsis and the
//    letters that occur once, in ASCII order (ImplicitOutput). CheckOutput: no label twice, and
//    each from an input.
// 2. Binding to shapes: an ellipsis becomes one label for each axis that it covers, counted from
//    the right (EllipsisAxis), so that ellipses of different ranks broadcast. A letter has the same
//    extent in each input; an axis of an ellipsis may be 1.

namespace {

absl::StatusOr<std::vector<Label>> ParseTerm(absl::string_view term) {
  std::vector<Label> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (absl::ascii_isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "...") {
      if (std::count(labels.begin(), labels.end(), kEllipsis) > 0) {
        return Invalid("'", term, "' has more than one ellipsis");
      }
      labels.push_back(kEllipsis);
      i += 2;
    } else {
      return Invalid("'", term, "' has '", term.substr(i, 1),
                     "', only letters and ... are allowed");
    }
  }
  return labels;
}

std::vector<Label> ImplicitOutput(const std::vector<std::vector<Label>>& inputs) {
  std::map<Label, int> counts;  // in ASCII order
  for (const std::vector<Label>& labels : inputs) {
    for (const Label label : labels) {
      ++counts[label];
    }
  }
  std::vector<Label> output;
  for (const auto& [label, count] : counts) {
    if (label == kEllipsis || count == 1) {
      output.push_back(label);
    }
  }
  return output;
}

absl::Status CheckOutput(const EinsumEquation& equation) {
  for (size_t i = 0; i < equation.output.size(); ++i) {
    const Label label = equation.output[i];
    const std::string name = label == kEllipsis ? "..." : std::string(1, static_cast<char>(label));
    if (std::count(equation.output.begin(), equation.output.end(), label) > 1) {
      return Invalid("'", name, "' stands twice in the output");
    }
    const bool known = std::any_of(
        equation.inputs.begin(), equation.inputs.end(), [&](const std::vector<Label>& labels) {
          return std::find(labels.begin(), labels.end(), label) != labels.end();
        });
    // An ellipsis that no input has stands for no axes.
    if (!known && label != kEllipsis) {
      return Invalid("'", name, "' of the output is in no input");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EinsumEquation> ParseEinsum(const std::string& equation) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text),
               [](char c) { return !absl::ascii_isspace(static_cast<unsigned char>(c)); });
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  if (sides.size() > 2) {
    return Invalid("attribute equation: '", equation, "' has more than one '->'");
  }
  EinsumEquation result;
  const auto parse = [&]() -> absl::Status {
    for (const absl::string_view term : absl::StrSplit(sides[0], ',')) {
      BW_ASSIGN_OR_RETURN(std::vector<Label> labels, ParseTerm(term));
      result.inputs.push_back(std::move(labels));
    }
    if (sides.size() == 1) {
      result.output = ImplicitOutput(result.inputs);
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(result.output, ParseTerm(sides[1]));
    return CheckOutput(result);
  };
  if (const absl::Status status = parse(); !status.ok()) {
    return Annotate(status, absl::StrCat("attribute equation '", equation, "'"));
  }
  return result;
}

absl::StatusOr<EinsumLabels> LabelShapes(const EinsumEquation& equation,
                                         absl::Span<const Shape> shapes) {
  EinsumLabels result;
  int most = 0;  // axes of the longest ellipsis
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<Label>& term = equation.inputs[i];
    const bool has_ellipsis = std::find(term.begin(), term.end(), kEllipsis) != term.end();
    const int hidden =
        static_cast<int>(shapes[i].size()) - static_cast<int>(term.size()) + (has_ellipsis ? 1 : 0);
    if (hidden < 0 || (hidden > 0 && !has_ellipsis)) {
      return Invalid("input ", i, ": shape ", ToString(shapes[i]), " has ", shapes[i].size(),
                     " axes, the equation names ", term.size() - (has_ellipsis ? 1 : 0));
    }
    most = std::max(most, hidden);
    std::vector<Label> labels;
    for (const Label label : term) {
      for (int distance = hidden; label == kEllipsis && distance > 0; --distance) {
        labels.push_back(EllipsisAxis(distance));
      }
      if (label != kEllipsis) {
        labels.push_back(label);
      }
    }
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const int64_t extent = shapes[i][axis];
      int64_t& known = result.extents.emplace(labels[axis], extent).first->second;
      const bool broadcasts = IsEllipsisAxis(labels[axis]);
      if (broadcasts && (extent == 1 || known == 1)) {
        known = known == 1 ? extent : known;
      } else if (known >= 0 && extent >= 0 && known != extent) {
        return Invalid("input ", i, ": extent ", extent, " of axis ", axis, " of shape ",
                       ToString(shapes[i]), " does not match ", known, ", its label's elsewhere");
      } else {
        known = std::max(known, extent);
      }
    }
    result.inputs.push_back(std::move(labels));
  }
  for (const Label label : equation.output) {
    for (int distance = most; label == kEllipsis && distance > 0; --distance) {
      result.output.push_back(EllipsisAxis(distance));
    }
    if (label != kEllipsis) {
      result.output.push_back(label);
    }
  }
  return result;
}

namespace {

using Labels = std::vector<Label>;

bool Has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor whose axes bear labels. Extents may be 1 where the label's is larger (broadcasting).
template <typename T>
struct Operand {
  const T* data = nullptr;
  Shape shape;
  Labels labels;
  std::vector<T> storage;  // where it is a result of ours

  // For each of `wanted` the distance in the data from an index of the label to the next: 0 for a
  // label that the operand lacks, the sum over its axes for a repeated label.
  Shape StridesOf(const Labels& wanted) const {
    const Shape dense = DenseStrides(shape);
    Shape strides(wanted.size(), 0);
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (size_t axis = 0; axis < labels.size(); ++axis) {
        strides[i] += labels[axis] == wanted[i] && shape[axis] != 1 ? dense[axis] : 0;
      }
    }
    return strides;
  }
};

template <typename T>
class Contraction {
 public:
  Contraction(const EinsumLabels& equation, int num_threads)
      : equation_(equation), num_threads_(num_threads) {}

  absl::Status Run(absl::Span<const Tensor* const> inputs, Tensor& output) const {
    Operand<T> left = Load(*inputs[0], 0);
    for (size_t i = 1; i < inputs.size(); ++i) {
      BW_ASSIGN_OR_RETURN(left, Multiply(left, Load(*inputs[i], i), NeededAfter(i)));
    }
    BW_ASSIGN_OR_RETURN(left, Sum(left, equation_.output));
    std::copy(left.storage.begin(), left.storage.end(), output.mutable_data<T>());
    return absl::OkStatus();
  }

 private:
  // Integers are summed without sign: they wrap.
  using Total = typename std::conditional_t<std::is_integral_v<T>, std::type_identity<uint64_t>,
                                            std::type_identity<T>>::type;

  Operand<T> Load(const Tensor& tensor, size_t input) const {
    return {tensor.data<T>(), tensor.shape(), equation_.inputs[input], {}};
  }
  // Labels of the output and of inputs behind `input`.
  Labels NeededAfter(size_t input) const {
    Labels needed = equation_.output;
    for (size_t i = input + 1; i < equation_.inputs.size(); ++i) {
      needed.insert(needed.end(), equation_.inputs[i].begin(), equation_.inputs[i].end());
    }
    return needed;
  }
  Shape ExtentsOf(const Labels& labels) const {
    Shape extents;
    for (const Label label : labels) {
      extents.push_back(equation_.extents.at(label));
    }
    return extents;
  }
  absl::Status Allocate(Operand<T>& result) const {
    BW_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(result.shape));
    if (elements > MaxTensorBytes() / static_cast<int64_t>(sizeof(T))) {
      return TooLarge(absl::StrCat("an intermediate result of shape ", ToString(result.shape)));
    }
    result.storage.resize(static_cast<size_t>(elements));
    result.data = result.storage.data();
    return absl::OkStatus();
  }

  // The operand with axes `kept`, everything else summed over. A label of `kept` that it lacks
  // is repeated.
  absl::StatusOr<Operand<T>> Sum(const Operand<T>& from, const Labels& kept) const {
    Labels summed;
    for (const Label label : from.labels) {
      if (!Has(kept, label) && !Has(summed, label)) {
        summed.push_back(label);
      }
    }
    Operand<T> result{nullptr, ExtentsOf(kept), kept, {}};
    BW_RETURN_IF_ERROR(Allocate(result));
    const std::vector<int64_t> starts = Offsets(result.shape, from.StridesOf(kept));
    const std::vector<int64_t> terms = Offsets(ExtentsOf(summed), from.StridesOf(summed));
    for (size_t i = 0; i < starts.size(); ++i) {
      Total sum{};
      for (const int64_t term : terms) {
        sum += static_cast<Total>(from.data[starts[i] + term]);
      }
      result.storage[i] = static_cast<T>(sum);
    }
    return result;
  }

  // How the labels of a pair take part in its product.
  struct Roles {
    Labels batch;  // both, needed later
    Labels rows;   // left only, needed later
    Labels columns;
    Labels depth;                    // both, summed over
    Labels left_alone, right_alone;  // one only, not needed: summed away first
  };
  Roles RolesOf(const Labels& left, const Labels& right, const Labels& needed) const {
    Roles roles;
    const auto add = [](Labels& list, Label label) {
      if (!Has(list, label)) {
        list.push_back(label);
      }
    };
    for (const Label label : left) {
      if (Has(right, label)) {
        add(Has(needed, label) ? roles.batch : roles.depth, label);
      } else {
        add(Has(needed, label) ? roles.rows : roles.left_alone, label);
      }
    }
    for (const Label label : right) {
      if (!Has(left, label)) {
        add(Has(needed, label) ? roles.columns : roles.right_alone, label);
      }
    }
    return roles;
  }

  // The operand with the labels of `alone` summed away; the operand itself if `alone` is empty.
  absl::StatusOr<Operand<T>> Without(const Operand<T>& from, const Labels& alone) const {
    if (alone.empty()) {
      return Operand<T>{from.data, from.shape, from.labels, {}};
    }
    Labels kept;
    for (const Label label : from.labels) {
      if (!Has(alone, label) && !Has(kept, label)) {
        kept.push_back(label);
      }
    }
    return Sum(from, kept);
  }

  // Axes of the result: batch, rows, columns.
  absl::StatusOr<Operand<T>> Multiply(const Operand<T>& left, const Operand<T>& right,
                                      const Labels& needed) const {
    // 1. Roles, and labels of one operand summed away.
    const Roles roles = RolesOf(left.labels, right.labels, needed);
    BW_ASSIGN_OR_RETURN(const Operand<T> a, Without(left, roles.left_alone));
    BW_ASSIGN_OR_RETURN(const Operand<T> b, Without(right, roles.right_alone));
    Labels labels = roles.batch;
    labels.insert(labels.end(), roles.rows.begin(), roles.rows.end());
    labels.insert(labels.end(), roles.columns.begin(), roles.columns.end());
    Operand<T> result{nullptr, ExtentsOf(labels), labels, {}};
    BW_RETURN_IF_ERROR(Allocate(result));
    // 2. Offsets of each role's elements in both operands.
    const auto offsets = [&](const Operand<T>& operand, const Labels& list) {
      return Offsets(ExtentsOf(list), operand.StridesOf(list));
    };
    const std::vector<int64_t> batch_a = offsets(a, roles.batch), batch_b = offsets(b, roles.batch);
    const std::vector<int64_t> depth_a = offsets(a, roles.depth), depth_b = offsets(b, roles.depth);
    const std::vector<int64_t> rows = offsets(a, roles.rows);
    const std::vector<int64_t> columns = offsets(b, roles.columns);
    const int64_t width = static_cast<int64_t>(columns.size());
    // Contiguous columns have a loop that the compiler vectorizes.
    bool dense = true;
    for (int64_t n = 0; n < width; ++n) {
      dense = dense && columns[static_cast<size_t>(n)] == n;
    }
    // 3. One item for each batch and row: all columns, term by term.
    const int64_t items = static_cast<int64_t>(batch_a.size() * rows.size());
    T* const out = result.storage.data();
    const int64_t work = items * width * static_cast<int64_t>(depth_a.size());
    ParallelFor(num_threads_, items, work, [&](int64_t item) {
      static thread_local std::vector<Total> sums;
      sums.assign(columns.size(), Total{});
      const size_t batch = static_cast<size_t>(item) / rows.size();
      const T* from_a = a.data + batch_a[batch] + rows[static_cast<size_t>(item) % rows.size()];
      const T* from_b = b.data + batch_b[batch];
      for (size_t k = 0; k < depth_a.size(); ++k) {
        const Total factor = static_cast<Total>(from_a[depth_a[k]]);
        const T* line = from_b + depth_b[k];
        for (size_t n = 0; dense && n < sums.size(); ++n) {
          sums[n] += factor * static_cast<Total>(line[n]);
        }
        for (size_t n = 0; !dense && n < sums.size(); ++n) {
          sums[n] += factor * static_cast<Total>(line[columns[n]]);
        }
      }
      std::transform(sums.begin(), sums.end(), out + item * width,
                     [](Total sum) { return static_cast<T>(sum); });
    });
    return result;
  }

  const EinsumLabels& equation_;
  const int num_threads_;
};

struct EinsumOp {
  using Options = EinsumEquation;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string equation, node.attributes.String("equation", ""));
    return ParseEinsum(equation);
  }

  static absl::StatusOr<EinsumLabels> LabelsOf(const Options& equation,
                                               absl::Span<const InputInfo> inputs) {
    std::vector<Shape> shapes;
    for (const InputInfo& input : inputs) {
      shapes.push_back(input.shape.dims());
    }
    return LabelShapes(equation, shapes);
  }

  static absl::Status Shapes(const Options& equation, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(
        ExpectCounts(inputs, equation.inputs.size(), equation.inputs.size(), outputs));
    bool ranks_known = true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!IsFloat(inputs[i].dtype) && !IsInteger(inputs[i].dtype)) {
        return Invalid("input ", i, ": element type ", Name(inputs[i].dtype),
                       " is not supported, only integers and floats");
      }
      if (inputs[i].dtype != inputs[0].dtype) {
        return Invalid("input ", i, ": element type ", Name(inputs[i].dtype),
                       " is not that of input 0, ", Name(inputs[0].dtype));
      }
      ranks_known = ranks_known && inputs[i].shape.has_rank();
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape();
    if (!ranks_known) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const EinsumLabels labels, LabelsOf(equation, inputs));
    Shape dims;
    for (const Label label : labels.output) {
      dims.push_back(labels.extents.at(label));
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& equation, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    BW_ASSIGN_OR_RETURN(const EinsumLabels labels, LabelsOf(equation, DescribeInputs(inputs)));
    return VisitDType(outputs[0].dtype(), [&](auto type) -> absl::Status {
      using T = decltype(type);
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        return Contraction<T>(labels, context.num_threads).Run(inputs, outputs[0]);
      }
      return absl::OkStatus();
    });
  }

  // Rows stand on one label, which is kept, stands once in each input and belongs to every input
  // that has rows; inputs without rows lack it, or repeat along it in an ellipsis.
  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const absl::StatusOr<Options> equation = Parse(node);
    const bool ranks_known = std::all_of(inputs.begin(), inputs.end(), [](const InputInfo& input) {
      return input.shape.has_rank();
    });
    if (!equation.ok() || !ranks_known) {
      return kMixedRows;
    }
    const absl::StatusOr<EinsumLabels> labels = LabelsOf(*equation, inputs);
    const auto first = std::find_if(rows.begin(), rows.end(), IsRows);
    if (!labels.ok()) {
      return kMixedRows;
    }
    const size_t with_rows = static_cast<size_t>(first - rows.begin());
    const Label label = labels->inputs[with_rows][static_cast<size_t>(first->axis)];
    for (size_t i = 0; i < rows.size(); ++i) {
      const Labels& mine = labels->inputs[i];
      const auto at = std::find(mine.begin(), mine.end(), label);
      const int axis = static_cast<int>(at - mine.begin());
      const bool fits =
          IsRows(rows[i])
              ? rows[i].axis == axis && rows[i].factor == first->factor &&
                    std::count(mine.begin(), mine.end(), label) == 1
              : IsFixed(rows[i]) &&
                    (at == mine.end() || (IsEllipsisAxis(label) && inputs[i].shape.dim(axis) == 1));
      if (!fits) {
        return kMixedRows;
      }
    }
    const auto out = std::find(labels->output.begin(), labels->output.end(), label);
    return out == labels->output.end()
               ? kMixedRows
               : RowsAt(static_cast<int>(out - labels->output.begin()), first->factor);
  }
};

}  // namespace

constinit const OperatorCode kEinsum = WidenedCodeOf<EinsumOp>(&EinsumOp::Rows);

}  // namespace beamwright::ops
