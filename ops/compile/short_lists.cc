// Three ways to the elements of a short list, in the order in which extents.cc asks:
//
// 1. Known: a constant's elements are numbers (FindKnown).
// 2. Computed: all inputs are numbers in every run, so that the operator's kernel computes the list
//    (KnownInputs::Compute).
// 3. By rule: some elements are symbols (FindElements). Operators that move elements run their
// kernel
//    on places in a table of the elements (Move); products, sums, quotients, comparisons and picks
//    are computed element by element on extents. A rule that cannot say all elements says none.
#include "ops/compile/short_lists.h"

#include <algorithm>

namespace beamwright::ops {
namespace {

constexpr int64_t kMostElements = 32;
// Longer lists are looked at as a whole only up to here.
constexpr int64_t kMostEqual = 1 << 16;

const ValueExtents* InputOf(const Node& node, const Extents& found, size_t port) {
  return port < node.inputs.size() && node.inputs[port].present() ? &found.of(node.inputs[port])
                                                                  : nullptr;
}

// Operators that move elements without looking at them run on numbers that stand for the elements:
// the number at each place of the output says which element moved there. 1. The data, or every
// input, becomes places 0, 1, ..; other inputs must be known. 2. The kernel runs. 3. Places become
// elements again.
std::optional<std::vector<Extent>> Move(const Node& node, const Extents& found,
                                        const GraphInfo& info, const OperatorSet& operators,
                                        bool every_input) {
  const Operator* op = operators.Find(node.op);
  // 1.
  std::vector<Extent> table;
  std::vector<Tensor> tensors;
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    const ValueId id = node.inputs[port];
    if (port == 0 || every_input) {
      const ValueExtents* data = InputOf(node, found, port);
      if (data == nullptr || !data->elements.has_value()) {
        return std::nullopt;
      }
      const auto count = static_cast<int64_t>(data->elements->size());
      Tensor places(DType::kI64, data->shape->empty() ? Shape{} : Shape{count});
      for (int64_t i = 0; i < count; ++i) {
        places.mutable_data<int64_t>()[i] = static_cast<int64_t>(table.size());
        table.push_back((*data->elements)[static_cast<size_t>(i)]);
      }
      tensors.push_back(std::move(places));
    } else {
      tensors.push_back(
          id.present()
              ? info.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)]
              : Tensor());
      if (id.present() && !tensors.back().has_value()) {
        return std::nullopt;
      }
    }
  }
  std::vector<InputInfo> inputs;
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) {
    inputs.push_back(tensor.has_value()
                         ? InputInfo{tensor.dtype(), PartialShape(tensor.shape()), &tensor}
                         : InputInfo{});
    pointers.push_back(&tensor);
  }
  // 2.
  const auto kernel = op->make({node, inputs, operators});
  Tensor moved;
  if (!kernel.ok() || !(*kernel)->Run(ExecutionContext(), pointers, {&moved, 1}).ok() ||
      moved.dtype() != DType::kI64 || moved.rank() > 1) {
    return std::nullopt;
  }
  // 3.
  std::vector<Extent> elements;
  for (const int64_t place : moved.span<int64_t>()) {
    elements.push_back(table[static_cast<size_t>(place)]);
  }
  return elements;
}

// Element by element, one of the two perhaps a single element.
template <typename Compute>
std::optional<std::vector<Extent>> ByElement(const ValueExtents* a, const ValueExtents* b,
                                             Compute compute) {
  if (a == nullptr || b == nullptr || !a->elements.has_value() || !b->elements.has_value()) {
    return std::nullopt;
  }
  const size_t count = std::max(a->elements->size(), b->elements->size());
  std::vector<Extent> result;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Extent> element = compute((*a->elements)[a->elements->size() == 1 ? 0 : i],
                                                  (*b->elements)[b->elements->size() == 1 ? 0 : i]);
    if (!element.has_value()) {
      return std::nullopt;
    }
    result.push_back(*element);
  }
  return result;
}

std::optional<Extent> Divide(const Extent& a, const Extent& b, Symbols& symbols) {
  // Symbols may be elements of any sign, but a quotient without rest does not round; and of what is
  // 0 or more, both ways to round do the same.
  const std::optional<Extent> whole = b.is_number() ? Quotient(a, b) : std::nullopt;
  const bool rounds = !whole.has_value() && b.is_number() && b.number > 0 && a.is_extent();
  return rounds ? symbols.Floor(a, b.number) : whole;
}

// What exporters write where extents of two values are to agree.
std::optional<Extent> LargerOf(const Extent& a, const Extent& b) {
  if (a.is_number() && b.is_number()) {
    return Extent{std::max(a.number, b.number), {}};
  }
  return a == b ? std::optional(a) : std::nullopt;
}

// 1 or 0; nothing where it can be either. An extent is never negative.
std::optional<Extent> IsEqual(const Extent& a, const Extent& b) {
  if (a == b) {
    return Extent{1, {}};
  }
  const bool differ = (a.is_number() && b.is_number()) ||
                      (a.is_extent() && b.is_number() && b.number < 0) ||
                      (b.is_extent() && a.is_number() && a.number < 0);
  return differ ? std::optional(Extent{0, {}}) : std::nullopt;
}

// What a condition that is known picks, place by place; any of the three perhaps a single element.
std::optional<std::vector<Extent>> Picked(const ValueExtents* condition, const ValueExtents* then,
                                          const ValueExtents* otherwise) {
  size_t count = 1;
  for (const ValueExtents* const input : {condition, then, otherwise}) {
    if (input == nullptr || !input->elements.has_value() || input->elements->empty()) {
      return std::nullopt;
    }
    count = std::max(count, input->elements->size());
  }
  const auto at = [](const ValueExtents* input, size_t place) {
    return (*input->elements)[input->elements->size() == 1 ? 0 : place];
  };
  std::vector<Extent> result;
  for (size_t i = 0; i < count; ++i) {
    const Extent holds = at(condition, i);
    if (!holds.is_number()) {
      return std::nullopt;
    }
    result.push_back(at(holds.number != 0 ? then : otherwise, i));
  }
  return result;
}

// A list whose elements are numbers, as a tensor; without a value if one is not.
Tensor NumbersOf(const ValueExtents& value, DType dtype) {
  std::vector<int64_t> numbers;
  for (const Extent& element : *value.elements) {
    if (!element.is_number()) {
      return Tensor();
    }
    numbers.push_back(element.number);
  }
  const auto count = static_cast<int64_t>(numbers.size());
  return Convert(Tensor::Of<int64_t>(value.shape->empty() ? Shape{} : Shape{count}, numbers), dtype)
      .value_or(Tensor());
}

}  // namespace

bool IsShortList(DType dtype, const ValueExtents& value) {
  const bool counts = IsInteger(dtype) || dtype == DType::kBool;
  if (!counts || !value.shape.has_value() || value.shape->size() > 1) {
    return false;
  }
  return value.shape->empty() ||
         (value.shape->front().is_number() && value.shape->front().number <= kMostElements);
}

void FindKnown(const Tensor& known, ValueExtents& value) {
  if (!IsInteger(known.dtype()) || known.rank() > 1 || known.num_elements() > kMostEqual) {
    return;
  }
  const absl::StatusOr<std::vector<int64_t>> numbers = ToInt64(known);
  if (!numbers.ok()) {
    return;
  }
  if (!numbers->empty() && std::all_of(numbers->begin(), numbers->end(), [&](int64_t number) {
        return number == numbers->front();
      })) {
    value.all = Extent{numbers->front(), {}};
  }
  if (known.num_elements() <= kMostElements) {
    value.elements.emplace();
    for (const int64_t number : *numbers) {
      value.elements->push_back(Extent{number, {}});
    }
  }
}

void FindElements(const Node& node, const Extents& found, const GraphInfo& info,
                  const OperatorSet& operators, Symbols& symbols, ValueExtents& value) {
  const ValueExtents* const data = InputOf(node, found, 0);
  const DType dtype = node.outputs[0].dtype;
  // Truth values count as 1 and 0. Extents are below 2^31 wherever i32 is written for them;
  // narrower types may lose them.
  const bool is_truth = node.op == "Equal" && dtype == DType::kBool;
  if (data == nullptr || (dtype != DType::kI64 && dtype != DType::kI32 && !is_truth)) {
    return;
  }
  const bool moves = node.op == "Broadcast" || node.op == "Tile" || node.op == "Reshape" ||
                     node.op == "Squeeze" || node.op == "Unsqueeze" || node.op == "Gather" ||
                     node.op == "Slice" || node.op == "StridedSlice" || node.op == "Reverse";
  // A value that fills all places fills them wherever they are moved.
  if (moves || node.op == "Convert") {
    value.all = data->all;
  }
  if (!IsShortList(dtype, value)) {
    return;
  }
  if (node.op == "ShapeOf") {
    value.elements = data->shape;
  } else if (node.op == "Convert") {
    value.elements = data->elements;
  } else if (node.op == "Concat") {
    value.elements = Move(node, found, info, operators, true);
  } else if (moves) {
    value.elements = Move(node, found, info, operators, false);
  } else if (node.op == "ReduceProd") {
    const bool is_one = value.shape->empty() || value.shape->front() == Extent{};
    const std::optional<Extent> product =
        is_one && data->elements.has_value() ? Product(*data->elements) : std::nullopt;
    if (product.has_value()) {
      value.elements = {*product};
    }
  } else if (node.op == "Multiply") {
    value.elements = ByElement(data, InputOf(node, found, 1),
                               [](const Extent& a, const Extent& b) { return Product(a, b); });
  } else if (node.op == "Add") {
    value.elements = ByElement(data, InputOf(node, found, 1),
                               [&](const Extent& a, const Extent& b) { return symbols.Sum(a, b); });
  } else if (node.op == "Subtract") {
    value.elements =
        ByElement(data, InputOf(node, found, 1),
                  [&](const Extent& a, const Extent& b) { return symbols.Difference(a, b); });
  } else if (node.op == "Range" && value.shape->front() == Extent{}) {
    value.elements = data->elements;
  } else if (node.op == "Divide") {
    value.elements =
        ByElement(data, InputOf(node, found, 1),
                  [&](const Extent& a, const Extent& b) { return Divide(a, b, symbols); });
  } else if (node.op == "Maximum") {
    value.elements = ByElement(data, InputOf(node, found, 1), LargerOf);
  } else if (is_truth) {
    value.elements = ByElement(data, InputOf(node, found, 1), IsEqual);
  } else if (node.op == "Select") {
    value.elements = Picked(data, InputOf(node, found, 1), InputOf(node, found, 2));
  }
}

KnownInputs::KnownInputs(const Graph& graph, const Node& node, const Extents& found,
                         const GraphInfo& info)
    : node_(node), numbers_(node.inputs.size()), infos_(info.InputsOf(graph, node)) {
  for (size_t port = 0; port < infos_.size(); ++port) {
    const ValueExtents* const known = InputOf(node, found, port);
    InputInfo& input = infos_[port];
    if (known == nullptr || input.value != nullptr) {
      continue;
    }
    if (known->elements.has_value() && IsInteger(input.dtype)) {
      numbers_[port] = NumbersOf(*known, input.dtype);
    }
    if (numbers_[port].has_value()) {
      input.value = &numbers_[port];
      input.shape = PartialShape(numbers_[port].shape());
      is_news_ = true;
    } else if (known->shape.has_value()) {
      Shape dims;
      for (const Extent& extent : *known->shape) {
        dims.push_back(extent.is_number() ? extent.number : PartialShape::kDynamic);
      }
      is_news_ = is_news_ || !input.shape.has_rank() || dims != input.shape.dims();
      input.shape = PartialShape(std::move(dims));
    }
  }
}

Tensor KnownInputs::Compute(const OperatorSet& operators, const ValueExtents& value) const {
  const DType dtype = node_.outputs[0].dtype;
  const Operator* const op = operators.Find(node_.op);
  if (op == nullptr || op->make == nullptr || !IsInteger(dtype) || !IsShortList(dtype, value)) {
    return Tensor();
  }
  const Tensor absent;
  std::vector<const Tensor*> inputs;
  for (const InputInfo& input : infos_) {
    if (input.dtype != DType::kUndefined && input.value == nullptr) {
      return Tensor();
    }
    inputs.push_back(input.value == nullptr ? &absent : input.value);
  }
  const auto kernel = op->make({node_, infos_, operators});
  Tensor computed;
  if (!kernel.ok() || !(*kernel)->Run(ExecutionContext(), inputs, {&computed, 1}).ok()) {
    return Tensor();
  }
  return computed;
}

std::optional<std::vector<Extent>> ReshapedTo(const ValueExtents& data, const ValueExtents& pattern,
                                              bool special_zero) {
  if (!pattern.elements.has_value()) {
    return std::nullopt;
  }
  // Zeros copy an extent of the data; one -1 takes what is left of the data's elements.
  std::vector<Extent> shape = *pattern.elements;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Extent{0, {}} && special_zero) {
      if (!data.shape.has_value() || i >= data.shape->size()) {
        return std::nullopt;
      }
      shape[i] = (*data.shape)[i];
    } else if (shape[i] == Extent{-1, {}}) {
      open = i;
      shape[i] = Extent{};
    } else if (!shape[i].is_extent()) {
      return std::nullopt;
    }
  }
  if (open.has_value()) {
    const std::optional<Extent> given = Product(shape);
    const std::optional<Extent> whole =
        data.shape.has_value() ? Product(*data.shape) : std::nullopt;
    const std::optional<Extent> rest =
        given.has_value() && whole.has_value() ? Quotient(*whole, *given) : std::nullopt;
    if (!rest.has_value()) {
      return std::nullopt;
    }
    shape[*open] = *rest;
  }
  return shape;
}

}  // namespace beamwright::ops
