// JoinElementwise: operator fusion of functions of elements.
//
//   before: Sigmoid(Add(Split(x).0, b)) * Tanh(Split(x).1)     gates of a recurrent layer
//   after:  ElementwiseChain(x, b)                             one pass over its inputs
//
// 1. Place goes through the nodes in order and puts each into the groups that it reads, if the
//    result can be one chain (CanBeOne): all of one shape, values that others read only behind the
//    group's last node, and not more values than a chain has.
// 2. AppendChain writes a group of two or more as one node in the place of its last one. Values
//    that are read outside become its results.
//
// Parts of a Split are read where they are (ops/kernels/elementwise_chain.h).
//
// Below: JoinSoftPlus, which comes before it in the list.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

using Group = std::vector<int>;  // nodes, in order; a chain takes the place of the last one

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, const GraphInfo& info)
      : graph_(graph),
        info_(info),
        readers_(ReadersByNode(graph)),
        group_of_(graph.nodes.size(), kNone) {}

  std::optional<Graph> Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (IsElementwise(static_cast<int>(i))) {
        Place(static_cast<int>(i));
      }
    }
    std::vector<bool> is_member(graph_.nodes.size(), false);
    bool any = false;
    for (const Group& group : groups_) {
      for (const int node : group) {
        is_member[static_cast<size_t>(node)] = group.size() > 1;
        any = any || group.size() > 1;
      }
    }
    if (!any) {
      return std::nullopt;
    }
    GraphCopy joined(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (!is_member[i]) {
        joined.Keep(index);
      } else if (groups_[group_of_[i]].back() == index) {
        AppendChain(groups_[group_of_[i]], joined);
      }
    }
    return DropUnneeded(std::move(joined).Finish());
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  const PartialShape& ShapeOf(ValueId id) const { return graph_.info(id).shape; }

  bool IsOne(ValueId id) const {
    const PartialShape& shape = ShapeOf(id);
    return shape.is_static() && NumElements(shape.dims()) == 1;
  }

  // A value with one element for each channel of `out`.
  bool IsChannels(ValueId id, const PartialShape& out) const {
    const PartialShape& shape = ShapeOf(id);
    const int axis = shape.is_static() ? ChannelAxis(shape.dims()) : 0;
    return axis > 0 && shape.rank() <= out.rank() &&
           out.dim(out.rank() - axis) == shape.dim(shape.rank() - axis);
  }

  // A node whose operands have, as far as is known, its own shape, one element, or one for each
  // channel.
  bool IsElementwise(int index) const {
    const Node& node = graph_.node(index);
    const auto operands = static_cast<size_t>(ChainOperands(node.op));
    if (operands == 0 || node.inputs.size() != operands || info_.IsKnown(index) ||
        node.outputs[0].dtype != DType::kF32 || !node.outputs[0].shape.has_rank() ||
        node.attributes.String("auto_broadcast", "numpy").value_or("") != "numpy") {
      return false;
    }
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return ShapeOf(input) == node.outputs[0].shape ||
             (IsOne(input) && ShapeOf(input).rank() <= node.outputs[0].shape.rank()) ||
             IsChannels(input, node.outputs[0].shape);
    });
  }

  // Puts a node into one group with those that it reads, as far as that can be.
  void Place(int index) {
    std::vector<size_t> read;  // groups
    for (const ValueId input : graph_.node(index).inputs) {
      const size_t group = group_of_[static_cast<size_t>(input.node)];
      if (group != kNone && std::find(read.begin(), read.end(), group) == read.end()) {
        read.push_back(group);
      }
    }
    std::vector<std::vector<size_t>> choices = {read};
    for (size_t i = 0; read.size() > 1 && i < read.size(); ++i) {
      choices.push_back({read[i]});
    }
    for (const std::vector<size_t>& choice : choices) {
      Group together = {index};
      for (const size_t group : choice) {
        together.insert(together.end(), groups_[group].begin(), groups_[group].end());
      }
      std::sort(together.begin(), together.end());
      if (CanBeOne(together)) {
        for (const size_t group : choice) {
          groups_[group].clear();
        }
        for (const int node : together) {
          group_of_[static_cast<size_t>(node)] = groups_.size();
        }
        groups_.push_back(std::move(together));
        return;
      }
    }
    group_of_[static_cast<size_t>(index)] = groups_.size();
    groups_.push_back({index});
  }

  static bool Contains(const Group& group, int node) {
    return std::binary_search(group.begin(), group.end(), node);
  }

  // Whether nodes are of one shape, not too many, and what they give is read from outside only
  // behind the last of them.
  bool CanBeOne(const Group& group) const {
    const auto fits = [&](int node) {
      const std::vector<int>& readers = readers_[static_cast<size_t>(node)];
      return ShapeOf({node, 0}) == ShapeOf({group.back(), 0}) &&
             std::all_of(readers.begin(), readers.end(), [&](int reader) {
               return reader > group.back() || Contains(group, reader);
             });
    };
    const std::vector<ValueId> inputs = InputsOf(group);
    // Channels are found in whole values, not in parts of them.
    const auto has_channels = [&](ValueId input) {
      return ShapeOf(input) != ShapeOf({group.back(), 0}) && !IsOne(input);
    };
    const bool whole = std::none_of(inputs.begin(), inputs.end(), has_channels) ||
                       std::none_of(inputs.begin(), inputs.end(),
                                    [&](ValueId input) { return WindowOf(input).has_value(); });
    return whole && group.size() + inputs.size() <= kMostChainValues &&
           std::all_of(group.begin(), group.end(), fits);
  }

  std::vector<ValueId> InputsOf(const Group& group) const {
    std::vector<ValueId> inputs;
    for (const int node : group) {
      for (const ValueId input : graph_.node(node).inputs) {
        if (!Contains(group, input.node) &&
            std::find(inputs.begin(), inputs.end(), input) == inputs.end()) {
          inputs.push_back(input);
        }
      }
    }
    return inputs;
  }

  // Where the value lies in the input of a Split along the last axis; nothing: it is no part
  // of one, or it is not known where.
  std::optional<ChainOptions::Window> WindowOf(ValueId value) const {
    const Node& node = graph_.node(value.node);
    if (node.op != "Split" && node.op != "VariadicSplit") {
      return std::nullopt;
    }
    const Tensor* const axis = info_.InputsOf(graph_, node)[1].value;
    const absl::StatusOr<std::vector<int64_t>> axes =
        axis == nullptr ? std::vector<int64_t>() : ToInt64(*axis);
    const int rank = ShapeOf(value).has_rank() ? ShapeOf(value).rank() : 0;
    if (!axes.ok() || axes->size() != 1 || rank == 0 ||
        (axes->front() != -1 && axes->front() != rank - 1)) {
      return std::nullopt;
    }
    ChainOptions::Window window;
    for (int output = 0; output <= value.output; ++output) {
      window.first += std::max<int64_t>(window.count, 0);
      window.count = ShapeOf({value.node, output}).dims().back();
      if (window.count < 0) {
        return std::nullopt;
      }
    }
    return window;
  }

  // The chain's values are numbered: inputs first, then functions in order. A function that others
  // read outside the group is a result of the chain.
  void AppendChain(const Group& group, GraphCopy& joined) const {
    ChainOptions options;
    Node node;
    node.op = kElementwiseChainName;
    node.name = graph_.node(group.back()).name;
    const std::vector<ValueId> inputs = InputsOf(group);
    for (const ValueId input : inputs) {
      const std::optional<ChainOptions::Window> window = WindowOf(input);
      options.windows.push_back(window.value_or(ChainOptions::Window()));
      node.inputs.push_back(
          joined.Of(window.has_value() ? graph_.node(input.node).inputs[0] : input));
    }
    const auto number_of = [&](ValueId value) {
      const auto member = std::lower_bound(group.begin(), group.end(), value.node);
      return member != group.end() && *member == value.node
                 ? static_cast<int64_t>(inputs.size()) + (member - group.begin())
                 : std::find(inputs.begin(), inputs.end(), value) - inputs.begin();
    };
    std::vector<int> results;
    for (size_t i = 0; i < group.size(); ++i) {
      const Node& member = graph_.node(group[i]);
      options.functions.push_back(
          FunctionOf(member, number_of(member.inputs[0]),
                     member.inputs.size() > 1 ? number_of(member.inputs[1]) : -1));
      const std::vector<int>& readers = readers_[static_cast<size_t>(group[i])];
      const bool is_read = std::any_of(readers.begin(), readers.end(),
                                       [&](int reader) { return !Contains(group, reader); });
      if (is_read || group[i] == group.back()) {
        options.results.push_back(static_cast<int64_t>(i));
        results.push_back(group[i]);
        node.outputs.push_back(member.outputs[0]);
      }
    }
    options.Write(node.attributes);
    const ValueId chain = AppendNode(joined.to(), std::move(node));
    for (size_t i = 0; i < results.size(); ++i) {
      joined.Replace({results[i], 0}, {chain.node, static_cast<int>(i)});
    }
  }

  const Graph& graph_;
  const GraphInfo& info_;
  std::vector<std::vector<int>> readers_;  // by node
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // by node
};

}  // namespace

absl::StatusOr<bool> JoinElementwise(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = ChainFinder(graph, info).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

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
