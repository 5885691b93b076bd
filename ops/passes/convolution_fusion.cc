// JoinConvolutions: operator fusion of a convolution with its bias and its activation.
//
//   before: ReLU(Add(Convolution(x, filter), bias))
//   after:  ConvolutionChain(x, filter, bias)        applied to parts that are still in the cache
//
// Functions are those of ops/kernels/chain_functions.h, over the convolution itself, numbers, and
// known values with one element for each channel. One value of the group may be read elsewhere.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

using ConvolutionGroup = std::vector<int>;  // a convolution and what follows it, in order

class ConvolutionJoiner {
 public:
  ConvolutionJoiner(const Graph& graph, const GraphInfo& info)
      : graph_(graph), info_(info), readers_(ReadersByNode(graph)) {}

  std::optional<Graph> Run() const {
    std::vector<ConvolutionGroup> ends(graph_.nodes.size());  // by last node
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      ConvolutionGroup group = GroupOf(static_cast<int>(i));
      if (group.size() > 1) {
        ends[static_cast<size_t>(group.back())] = std::move(group);
        any = true;
      }
    }
    if (!any) {
      return std::nullopt;
    }
    GraphCopy copy(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (ends[i].empty()) {
        copy.Keep(index);
      } else {
        copy.Keep(index, NodeFor(ends[i], copy));
      }
    }
    return DropUnneeded(std::move(copy).Finish());
  }

 private:
  const PartialShape& ShapeOf(ValueId id) const { return graph_.info(id).shape; }
  const Tensor& Known(ValueId value) const {
    return info_.constants[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }
  static bool Contains(const ConvolutionGroup& group, int node) {
    return std::binary_search(group.begin(), group.end(), node);
  }

  // A known number, or known numbers for the channels of `out`.
  bool IsConstant(ValueId value, const PartialShape& out, int64_t channels) const {
    const Tensor& known = Known(value);
    if (!known.has_value() || known.dtype() != DType::kF32 || known.rank() > out.rank()) {
      return false;
    }
    return known.num_elements() == 1 ||
           (known.num_elements() == channels && ChannelAxis(known.shape()) == out.rank() - 1);
  }

  // Whether a node can follow: a function of the group and constants, of the convolution's shape.
  bool CanFollow(int index, const ConvolutionGroup& group, int64_t channels) const {
    const Node& node = graph_.node(index);
    const auto operands = static_cast<size_t>(ChainOperands(node.op));
    const PartialShape& out = ShapeOf({group[0], 0});
    if (operands == 0 || node.inputs.size() != operands || info_.IsKnown(index) ||
        node.outputs[0].dtype != DType::kF32 || node.outputs[0].shape != out ||
        node.attributes.String("auto_broadcast", "numpy").value_or("") != "numpy") {
      return false;
    }
    const auto of_group = [&](ValueId input) { return Contains(group, input.node); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), of_group) &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             return of_group(input) || IsConstant(input, out, channels);
           });
  }

  // Whether only the last value of the group is read elsewhere.
  bool IsClosed(const ConvolutionGroup& group) const {
    return std::all_of(group.begin(), group.end() - 1, [&](int node) {
      const std::vector<int>& readers = readers_[static_cast<size_t>(node)];
      return std::all_of(readers.begin(), readers.end(),
                         [&](int reader) { return Contains(group, reader); });
    });
  }

  // The convolution and as much of what follows as can join it; empty or of one: nothing does.
  ConvolutionGroup GroupOf(int index) const {
    const Node& node = graph_.node(index);
    const bool grouped = node.op == "GroupConvolution";
    if ((!grouped && node.op != "Convolution") || info_.IsKnown(index)) {
      return {};
    }
    const Tensor& filter = Known(node.inputs[1]);
    if (!filter.has_value() || filter.dtype() != DType::kF32 || filter.num_elements() == 0 ||
        node.outputs[0].dtype != DType::kF32 || !node.outputs[0].shape.has_rank()) {
      return {};
    }
    const int64_t channels = filter.dim(0) * (grouped ? filter.dim(1) : 1);
    ConvolutionGroup group = {index};
    // Nodes are in order, so that a reader of the group comes behind what it reads.
    for (size_t at = 0; at < group.size(); ++at) {
      for (const int reader : readers_[static_cast<size_t>(group[at])]) {
        if (!Contains(group, reader) && CanFollow(reader, group, channels)) {
          group.insert(std::upper_bound(group.begin(), group.end(), reader), reader);
        }
      }
    }
    while (group.size() > 1 &&
           (!IsClosed(group) || group.size() + ConstantsOf(group).size() > kMostChainValues)) {
      group.pop_back();
    }
    return group;
  }

  std::vector<ValueId> ConstantsOf(const ConvolutionGroup& group) const {
    std::vector<ValueId> constants;
    for (size_t i = 1; i < group.size(); ++i) {
      for (const ValueId input : graph_.node(group[i]).inputs) {
        if (!Contains(group, input.node) &&
            std::find(constants.begin(), constants.end(), input) == constants.end()) {
          constants.push_back(input);
        }
      }
    }
    return constants;
  }

  Node NodeFor(const ConvolutionGroup& group, const GraphCopy& copy) const {
    const std::vector<ValueId> constants = ConstantsOf(group);
    const Node& convolution = graph_.node(group[0]);
    Node node;
    node.op = kConvolutionChainName;
    node.name = convolution.name;
    node.attributes = convolution.attributes;
    node.attributes.Set("grouped", convolution.op == "GroupConvolution");
    node.inputs = {copy.Of(convolution.inputs[0]), copy.Of(convolution.inputs[1])};
    for (const ValueId constant : constants) {
      node.inputs.push_back(copy.Of(constant));
    }
    node.outputs = graph_.node(group.back()).outputs;
    // Values: the convolution, constants, what functions give.
    const auto number_of = [&](ValueId value) -> int64_t {
      if (value.node == group[0]) {
        return 0;
      }
      const auto num_constants = static_cast<int64_t>(constants.size());
      const auto member = std::lower_bound(group.begin(), group.end(), value.node);
      return member != group.end() && *member == value.node
                 ? num_constants + (member - group.begin())
                 : 1 + (std::find(constants.begin(), constants.end(), value) - constants.begin());
    };
    ChainOptions options;
    options.windows.resize(1 + constants.size());
    for (size_t i = 1; i < group.size(); ++i) {
      const Node& member = graph_.node(group[i]);
      options.functions.push_back(
          FunctionOf(member, number_of(member.inputs[0]),
                     member.inputs.size() > 1 ? number_of(member.inputs[1]) : -1));
    }
    options.results = {static_cast<int64_t>(options.functions.size()) - 1};
    options.Write(node.attributes);
    return node;
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const std::vector<std::vector<int>> readers_;  // by node; of a node that reads it twice, twice
};

}  // namespace

absl::StatusOr<bool> JoinConvolutions(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = ConvolutionJoiner(graph, info).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
