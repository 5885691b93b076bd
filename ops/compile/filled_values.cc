// Values that hold one number everywhere, and bounds of integers (step 5 of extents.cc). An
// attention mask over a source without padding is all ones, whatever the source's length: found
// here, the mask and all that follows from it become constants.
//
// 1. FindFill, for a value: Fill follows the number through operators that move elements (Moves),
//    compute element by element (IsElementwise: the operator runs on single numbers, Computed),
//    choose (Select) or join (Concat).
// 2. FindBounds: Range counts from its start to one before its stop; Compared then decides a
//    comparison by the bounds of both sides: positions < length is true everywhere.
// 3. FoldFills replaces an input that is filled by a constant of one element, where the node keeps
//    its shape by another input or all readers broadcast. AddsNothing finds additions of 0.
//
//   positions = Range(0, L, 1);  mask = Less(positions, L) is true;  Select(mask, x, -inf) is x
#include "ops/compile/filled_values.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "ops/compile/graph_copy.h"

namespace beamwright::ops {
namespace {

// Constants with more elements are not compared.
constexpr int64_t kMostCompared = 1 << 12;

bool SameNumber(const Tensor& a, const Tensor& b) {
  return a.has_value() && b.has_value() && a.dtype() == b.dtype() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(SizeOf(a.dtype()))) == 0;
}

Tensor FirstElement(const Tensor& tensor) {
  Tensor element(tensor.dtype(), {});
  std::memcpy(element.mutable_bytes(), tensor.bytes(), static_cast<size_t>(SizeOf(tensor.dtype())));
  return element;
}

Tensor FillOf(const Tensor& known) {
  const int64_t count = known.num_elements();
  if (count < 1 || count > kMostCompared) {
    return Tensor();
  }
  const auto size = static_cast<size_t>(SizeOf(known.dtype()));
  const std::byte* const bytes = known.bytes();
  for (int64_t i = 1; i < count; ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) {
      return Tensor();
    }
  }
  return FirstElement(known);
}

Tensor Truth(bool value) { return Convert(Tensor::Scalar(int64_t{value}), DType::kBool).value(); }

bool IsTruth(const Tensor& fill, bool value) { return SameNumber(fill, Truth(value)); }

// Whether the operator moves elements of its first input without changing them.
bool Moves(absl::string_view op) {
  constexpr absl::string_view kMoving[] = {
      "Broadcast", "Tile",   "Reshape",      "Squeeze", "Unsqueeze", "Transpose",
      "Slice",     "Gather", "StridedSlice", "Reverse", "GatherND",  "GatherElements"};
  return absl::c_linear_search(kMoving, op);
}

// Whether the operator works element by element, broadcasts as NumPy does, and is cheap to run.
bool IsElementwise(absl::string_view op) {
  constexpr absl::string_view kElementwise[] = {
      "Add",      "Subtract",     "Multiply",   "Divide",    "Maximum",    "Minimum",   "Equal",
      "Less",     "LessEqual",    "Greater",    "NotEqual",  "LogicalAnd", "Select",    "Convert",
      "Negative", "GreaterEqual", "LogicalNot", "LogicalOr", "LogicalXor", "BitwiseAnd"};
  return absl::c_linear_search(kElementwise, op);
}

class FillFinder {
 public:
  FillFinder(const Node& node, const Extents& found, const OperatorSet& operators, Symbols& symbols)
      : node_(node), found_(found), operators_(operators), symbols_(symbols) {}

  void FindBounds(ValueExtents& value) {
    if (value.all.has_value()) {
      value.least = value.all;
      value.most = value.all;
    } else if (node_.op == "Range") {
      Count(value);
    } else if (Moves(node_.op) || (node_.op == "Convert" && IsInteger(node_.outputs[0].dtype))) {
      value.least = Input(0).least;
      value.most = Input(0).most;
    }
  }

  Tensor Fill() {
    if (Moves(node_.op)) {
      // A table of weights is not replaced, even if all its elements are equal.
      const bool is_table =
          node_.op == "Gather" && Input(0).fill.has_value() && IsFloat(Input(0).fill.dtype());
      return is_table ? Tensor() : Input(0).fill;
    }
    if (node_.op == "Concat") {
      return Alike(0, node_.inputs.size());
    }
    if (node_.op == "ScatterNDUpdate" || node_.op == "ScatterElementsUpdate") {
      const bool replaces = node_.attributes.String("reduction", "none").value_or("") == "none";
      return replaces && SameNumber(Input(0).fill, Input(2).fill) ? Input(0).fill : Tensor();
    }
    if (!IsElementwise(node_.op)) {
      return Tensor();
    }
    if (node_.op == "Select" && Input(0).fill.has_value()) {
      return Input(IsTruth(Input(0).fill, true) ? 1 : 2).fill;
    }
    const bool decides = node_.op == "LogicalOr";
    if ((node_.op == "LogicalAnd" || decides) &&
        (IsTruth(Input(0).fill, decides) || IsTruth(Input(1).fill, decides))) {
      return Truth(decides);
    }
    if (const std::optional<bool> compared = Compared(); compared.has_value()) {
      return Truth(*compared);
    }
    return Computed();
  }

 private:
  const ValueExtents& Input(size_t port) const { return found_.of_input(node_, port); }

  // A Range of step 1 has its start first and lasts to one before its stop.
  void Count(ValueExtents& value) {
    const auto single = [&](size_t port) {
      const auto& elements = Input(port).elements;
      return elements.has_value() && elements->size() == 1 ? std::optional(elements->front())
                                                           : std::nullopt;
    };
    if (!IsInteger(node_.outputs[0].dtype) || single(2) != Extent{}) {
      return;
    }
    value.least = single(0);
    value.most = single(1).has_value() ? symbols_.Difference(*single(1), Extent{}) : std::nullopt;
  }

  Tensor Alike(size_t first, size_t end) const {
    for (size_t port = first + 1; port < end; ++port) {
      if (!SameNumber(Input(first).fill, Input(port).fill)) {
        return Tensor();
      }
    }
    return Input(first).fill;
  }

  // What a comparison gives everywhere, by the bounds of both sides.
  std::optional<bool> Compared() {
    const bool greater = node_.op == "Greater" || node_.op == "LessEqual";
    const bool less = node_.op == "Less" || node_.op == "GreaterEqual";
    if (!greater && !less) {
      return std::nullopt;
    }
    // a > b never, where a is at most b; a <= b always.
    const ValueExtents& low = Input(greater ? 0 : 1);
    const ValueExtents& high = Input(greater ? 1 : 0);
    if (low.most.has_value() && high.least.has_value() && symbols_.AtMost(*low.most, *high.least)) {
      return node_.op == "LessEqual" || node_.op == "GreaterEqual";
    }
    return std::nullopt;
  }

  Tensor Computed() const {
    const Operator* const op = operators_.Find(node_.op);
    std::vector<InputInfo> infos;
    std::vector<const Tensor*> inputs;
    for (size_t port = 0; port < node_.inputs.size(); ++port) {
      const Tensor& fill = Input(port).fill;
      if (!fill.has_value()) {
        return Tensor();
      }
      infos.push_back({fill.dtype(), PartialShape(fill.shape()), &fill});
      inputs.push_back(&fill);
    }
    if (op == nullptr || op->make == nullptr) {
      return Tensor();
    }
    const auto kernel = op->make({node_, infos, operators_});
    Tensor computed;
    return kernel.ok() && (*kernel)->Run(ExecutionContext(), inputs, {&computed, 1}).ok() &&
                   computed.num_elements() == 1
               ? computed
               : Tensor();
  }

  const Node& node_;
  const Extents& found_;
  const OperatorSet& operators_;
  Symbols& symbols_;
};

bool HasShape(const ValueExtents& value, const ValueExtents& output) {
  return value.shape.has_value() && output.shape.has_value() && *value.shape == *output.shape;
}

// Whether an input of one element stands for one of any shape that broadcasts.
bool TakesFills(const Node& node) {
  return IsElementwise(node.op) && node.inputs.size() > 1 &&
         node.attributes.String("auto_broadcast", "numpy").value_or("") == "numpy";
}

}  // namespace

void FindFill(const Node& node, const Tensor& computed, const Extents& found,
              const OperatorSet& operators, Symbols& symbols, ValueExtents& value) {
  FillFinder finder(node, found, operators, symbols);
  finder.FindBounds(value);
  if (computed.has_value()) {
    value.fill = FillOf(computed);
  } else if (node.op != "Constant" && node.op != "Result") {
    value.fill = finder.Fill();
  }
  const DType dtype = node.op == "Result" ? DType::kUndefined : node.outputs[0].dtype;
  if (!value.fill.has_value() && value.all.has_value() && value.all->is_number() &&
      IsInteger(dtype)) {
    value.fill = Convert(Tensor::Scalar(value.all->number), dtype).value_or(Tensor());
  }
}

int AddsNothing(const Node& node, const ValueExtents& output, const Extents& found,
                const std::vector<const Node*>& readers) {
  if (node.op != "Add" || node.inputs.size() != 2 || node.outputs[0].dtype != DType::kF32) {
    return -1;
  }
  for (const int port : {0, 1}) {
    const Tensor& fill = found.of_input(node, static_cast<size_t>(port)).fill;
    if (!fill.has_value() || *fill.data<float>() != 0 ||
        !HasShape(found.of_input(node, static_cast<size_t>(1 - port)), output)) {
      continue;
    }
    // Adding 0 turns -0 into 0, which a softmax cannot distinguish.
    const bool is_unseen =
        std::signbit(*fill.data<float>()) ||
        absl::c_all_of(readers, [](const Node* reader) { return reader->op == "SoftMax"; });
    return is_unseen ? 1 - port : -1;
  }
  return -1;
}

bool FoldFills(const FoldedNode& from, Node& node, Graph& folded) {
  const Node& original = from.node();
  // What is filled itself is replaced where it is read: a chain of such nodes goes at once.
  if (!TakesFills(original) || from.found.of({from.index, 0}).fill.has_value()) {
    return false;
  }
  // An input that is filled, and no constant yet.
  const auto is_filled = [&](ValueId input) {
    return input.present() && from.found.of(input).fill.has_value() &&
           !from.info.constants[static_cast<size_t>(input.node)][static_cast<size_t>(input.output)]
                .has_value();
  };
  // Whether its output keeps its shape. Of nodes behind this one nothing is decided.
  const auto keeps_shape = [&](int index) {
    return index < from.index ? !from.freed[static_cast<size_t>(index)]
                              : absl::c_none_of(from.graph.node(index).inputs, is_filled);
  };
  // Whether a node has its shape of an input other than `left_out`, which keeps that shape.
  const auto has_cover = [&](int index, ValueId left_out) {
    return absl::c_any_of(from.graph.node(index).inputs, [&](ValueId input) {
      return input != left_out && !from.found.of(input).fill.has_value() &&
             keeps_shape(input.node) && HasShape(from.found.of(input), from.found.of({index, 0}));
    });
  };
  const bool is_free = !from.readers.empty() && absl::c_all_of(from.readers, [&](int reader) {
    return TakesFills(from.graph.node(reader)) && has_cover(reader, {from.index, 0});
  });
  bool any = false;
  for (size_t port = 0; port < original.inputs.size(); ++port) {
    const ValueId id = original.inputs[port];
    if (!is_filled(id)) {
      continue;
    }
    const bool is_covered = has_cover(from.index, id);
    if (is_covered || is_free) {
      node.inputs[port] = AppendConstant(folded, original.name, from.found.of(id).fill);
      from.freed[static_cast<size_t>(from.index)] =
          from.freed[static_cast<size_t>(from.index)] || !is_covered;
      any = true;
    }
  }
  return any;
}

}  // namespace beamwright::ops
