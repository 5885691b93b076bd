#include "ops/decoder/step_counts.h"

namespace beamwright::ops {

bool KeepsCounts(const Node& node) {
  const DType type = node.outputs[0].dtype;
  return node.op == "Convert" &&
         (type == DType::kI64 || type == DType::kI32 || type == DType::kF32 || type == DType::kF64);
}

const Tensor* StepCounts::Known(ValueId id) const {
  const Tensor& known =
      info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)];
  return known.has_value() ? &known : nullptr;
}

// The only element of a value known at load.
std::optional<int64_t> StepCounts::KnownInt(ValueId id) const {
  const Tensor* const known = Known(id);
  const absl::StatusOr<std::vector<int64_t>> ints =
      known != nullptr && known->num_elements() == 1 ? ToInt64(*known) : std::vector<int64_t>();
  return ints.ok() && ints->size() == 1 ? std::optional(ints->front()) : std::nullopt;
}

// The one place that a node picks from a list: Gather(list, place), or a Slice of one element,
// which starts there.
std::optional<int64_t> StepCounts::PickedPlace(const Node& pick) const {
  if (pick.op == "Gather") {
    return KnownInt(pick.inputs[1]);
  }
  const ValueInfo& picked = pick.outputs[0];
  const bool is_one = picked.shape.is_static() && NumElements(picked.shape.dims()) == 1;
  return is_one ? KnownInt(pick.inputs[1]) : std::nullopt;
}

// The node that gives a value apart from its type.
const Node& StepCounts::Untyped(ValueId id) const {
  const Node* node = &graph_.node(id.node);
  while (KeepsCounts(*node)) {
    node = &graph_.node(node->inputs[0].node);
  }
  return *node;
}

bool StepCounts::AreCountedBy(ValueId id) const {
  const Node* pick = &graph_.node(id.node);
  // One element stays what it is in another shape.
  while (pick->op == "Squeeze" || pick->op == "Unsqueeze" || pick->op == "Reshape" ||
         KeepsCounts(*pick)) {
    pick = &graph_.node(pick->inputs[0].node);
  }
  const std::optional<int64_t> axis =
      pick->op == "Gather" || pick->op == "Slice" ? PickedPlace(*pick) : std::nullopt;
  const Node* const shape_of = axis.has_value() ? &Untyped(pick->inputs[0]) : nullptr;
  if (shape_of == nullptr || shape_of->op != "ShapeOf") {
    return false;
  }
  const ValueId measured = shape_of->inputs[0];
  const PartialShape& shape = graph_.info(measured).shape;
  return runs_along_(measured, *axis < 0 && shape.has_rank() ? *axis + shape.rank() : *axis);
}

bool StepCounts::LetBegin(ValueId id) const {
  if (const Tensor* const known = Known(id)) {
    return known->dtype() == DType::kBool && known->num_elements() == 1 && known->data<bool>()[0];
  }
  const Node& node = graph_.node(id.node);
  const auto is_zero = [&](ValueId number) {
    const Tensor* const known = Known(number);
    return known != nullptr && known->num_elements() == 1 &&
           ToFloat32(*known).value_or(std::vector<float>{1})[0] == 0;
  };
  if (node.op == "LogicalAnd") {
    return LetBegin(node.inputs[0]) && LetBegin(node.inputs[1]);
  }
  return (node.op == "Less" && is_zero(node.inputs[0]) && AreCountedBy(node.inputs[1])) ||
         (node.op == "Greater" && is_zero(node.inputs[1]) && AreCountedBy(node.inputs[0]));
}

}  // namespace beamwright::ops
