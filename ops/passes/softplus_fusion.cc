// JoinSoftPlus: operator fusion of ln(1 + e^x), the core of zipformers' SwooshL and SwooshR.
//
//   before: Maximum(0, x) + Log(1 + Exp(-Abs(0 - x)))
//   after:  StableSoftPlus(x)
//
//   before: y = Log(Exp(x) + 1); Select(Equal(y, infinity), x, y)
//   after:  GuardedSoftPlus(x)
//
// Both keep the bits (ops/kernels/elementwise.h). What is left of an activation becomes one
// ElementwiseChain, which a Select between its functions would cut in three.
#include <limits>
#include <optional>
#include <utility>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/elementwise.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

class SoftPlusFinder {
 public:
  SoftPlusFinder(const Graph& graph, const GraphInfo& info) : graph_(graph), info_(info) {}

  std::optional<Graph> Run() const {
    GraphCopy copy(graph_);
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      const Node& node = graph_.nodes[i];
      std::optional<ValueId> x;
      const char* name = kGuardedSoftPlusName;
      if (node.op == "Select") {
        x = Guarded(node);
      } else if (node.op == "Add") {
        x = Stable(node);
        name = kStableSoftPlusName;
      }
      const ValueInfo& result = graph_.nodes[i].outputs.empty() ? ValueInfo() : node.outputs[0];
      if (!x.has_value() || result.dtype != DType::kF32 || info_.IsKnown(index) ||
          graph_.info(*x).shape != result.shape) {
        copy.Keep(index);
        continue;
      }
      Node joined;
      joined.op = name;
      joined.name = node.name;
      joined.inputs = {copy.Of(*x)};
      joined.outputs = node.outputs;
      copy.Replace({index, 0}, AppendNode(copy.to(), std::move(joined)));
      any = true;
    }
    return any ? std::optional(DropUnneeded(std::move(copy).Finish())) : std::nullopt;
  }

 private:
  // The node that gives the value, if it is of this type.
  const Node* NodeOf(ValueId id, const char* op) const {
    const Node& node = graph_.node(id.node);
    return id.output == 0 && node.op == op ? &node : nullptr;
  }

  bool IsNumber(const Node& node, size_t input, float number) const {
    const Tensor* const value = info_.InputsOf(graph_, node)[input].value;
    return value != nullptr && value->dtype() == DType::kF32 && value->num_elements() == 1 &&
           *value->data<float>() == number;
  }

  // The other operand of a node of two, one of which is the constant `number`.
  std::optional<ValueId> OtherThan(const Node* node, float number) const {
    for (size_t i = 0; node != nullptr && node->inputs.size() == 2 && i < 2; ++i) {
      if (IsNumber(*node, i, number)) {
        return node->inputs[1 - i];
      }
    }
    return std::nullopt;
  }

  // The operand of a node of one, if the value is there.
  std::optional<ValueId> Of(std::optional<ValueId> id, const char* op) const {
    const Node* const node = id.has_value() ? NodeOf(*id, op) : nullptr;
    return node == nullptr ? std::nullopt : std::optional(node->inputs[0]);
  }

  // x of Log(Exp(x) + 1).
  std::optional<ValueId> OfLogOfSum(std::optional<ValueId> id) const {
    const std::optional<ValueId> sum = Of(id, "Log");
    return sum.has_value() ? Of(OtherThan(NodeOf(*sum, "Add"), 1), "Exp") : std::nullopt;
  }

  std::optional<ValueId> Guarded(const Node& select) const {
    if (select.inputs.size() != 3) {
      return std::nullopt;
    }
    const std::optional<ValueId> x = OfLogOfSum(select.inputs[2]);
    const bool guards = x.has_value() && select.inputs[1] == *x &&
                        OtherThan(NodeOf(select.inputs[0], "Equal"),
                                  std::numeric_limits<float>::infinity()) == select.inputs[2];
    return guards ? x : std::nullopt;
  }

  std::optional<ValueId> Stable(const Node& add) const {
    for (size_t i = 0; add.inputs.size() == 2 && i < 2; ++i) {
      const std::optional<ValueId> x = OtherThan(NodeOf(add.inputs[i], "Maximum"), 0);
      std::optional<ValueId> size = Of(Of(OfLogOfSum(add.inputs[1 - i]), "Negative"), "Abs");
      if (!x.has_value() || !size.has_value()) {
        continue;
      }
      if (const Node* const difference = NodeOf(*size, "Subtract"); difference != nullptr) {
        size = OtherThan(difference, 0);
      }
      if (size == x) {
        return x;
      }
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const GraphInfo& info_;
};

}  // namespace

absl::StatusOr<bool> JoinSoftPlus(Graph& graph, GraphInfo& info, const PassContext& context) {
  return TakeChanged(SoftPlusFinder(graph, info).Run(), graph, info, context);
}

}  // namespace beamwright::ops
