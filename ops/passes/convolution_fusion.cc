// JoinConvolutions: operator fusion of a convolution with its bias and its activation.
//
//   before: ReLU(Add(Convolution(x, filter), bias))
//   after:  ConvolutionChain(x, filter, bias)        applied to parts that are still in the cache
//
// Functions are those of ops/kernels/elementwise_chain.h, over the convolution itself, numbers, and
// known values with one element for each channel. One value of the group may be read elsewhere.
//
// Below: FoldNorms, which comes before it in the list: what scales and shifts channels becomes part
// of the filter.
#include <algorithm>
#include <cmath>
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

// FoldNorms: what scales and shifts the channels of a convolution becomes part of its filter.
//
//   before: BatchNormInference(Convolution(x, filter))
//           Multiply(Add(Convolution(x, filter), b), c)
//   after:  Add(Convolution(x, filter * scale), shift)
//
// scale and shift are computed in f64 and rounded once; results differ from those of the graph in
// their last bits (docs/numerics.md). Filters and operands must be known, and nothing else may read
// what lies between.
namespace {

// y = x * scale + shift, by channel.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
  int last = -1;        // the last node that it stands for
  bool scales = false;  // not a sum alone, which would gain nothing

  bool IsFinite() const {
    for (size_t i = 0; i < scale.size(); ++i) {
      if (!std::isfinite(static_cast<float>(scale[i])) ||
          !std::isfinite(static_cast<float>(shift[i]))) {
        return false;
      }
    }
    return true;
  }
};

class NormFolder {
 public:
  NormFolder(const Graph& graph, const GraphInfo& info)
      : graph_(graph), info_(info), readers_(ReadersByNode(graph)) {}

  std::optional<Graph> Run() const {
    std::vector<std::optional<Affine>> found(graph_.nodes.size());  // by convolution
    std::vector<int> convolution_of(graph_.nodes.size(), -1);       // by last node
    bool any = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      std::optional<Affine> affine = Find(static_cast<int>(i));
      if (affine.has_value()) {
        convolution_of[static_cast<size_t>(affine->last)] = static_cast<int>(i);
        found[i] = std::move(affine);
        any = true;
      }
    }
    if (!any) {
      return std::nullopt;
    }
    GraphCopy copy(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      const int convolution = convolution_of[i];
      if (convolution < 0) {
        copy.Keep(index);
      } else {
        Append(convolution, *found[static_cast<size_t>(convolution)], copy);
      }
    }
    return DropUnneeded(std::move(copy).Finish());
  }

 private:
  const Tensor& Known(ValueId value) const {
    return info_.constants[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }

  // A known number, or one for each channel of `out`; empty: it is neither.
  std::vector<double> OfChannels(ValueId value, const PartialShape& out, int64_t channels) const {
    const Tensor& known = Known(value);
    if (!known.has_value() || known.dtype() != DType::kF32 || known.rank() > out.rank()) {
      return {};
    }
    const bool is_one = known.num_elements() == 1;
    if (!is_one &&
        (known.num_elements() != channels || ChannelAxis(known.shape()) != out.rank() - 1)) {
      return {};
    }
    std::vector<double> values;
    for (int64_t i = 0; i < channels; ++i) {
      values.push_back(known.data<float>()[is_one ? 0 : i]);
    }
    return values;
  }

  // Takes node `index`, which alone reads `value`, into `affine`.
  bool Take(int index, ValueId value, Affine& affine) const {
    const Node& node = graph_.node(index);
    const PartialShape& out = graph_.info(value).shape;
    const auto channels = static_cast<int64_t>(affine.scale.size());
    std::vector<double> scale(affine.scale.size(), 1);
    std::vector<double> shift(affine.scale.size(), 0);
    if (node.op == "BatchNormInference") {
      if (node.inputs.size() != 5 || node.inputs[0] != value) {
        return false;
      }
      const double epsilon = node.attributes.Float("epsilon", 0).value_or(0);
      const Tensor* parts[4];
      for (size_t i = 0; i < 4; ++i) {
        parts[i] = &Known(node.inputs[i + 1]);
        if (!parts[i]->has_value() || parts[i]->dtype() != DType::kF32 ||
            parts[i]->num_elements() != channels) {
          return false;
        }
      }
      for (size_t i = 0; i < scale.size(); ++i) {
        const auto part = [&](int p) { return static_cast<double>(parts[p]->data<float>()[i]); };
        scale[i] = part(0) / std::sqrt(part(3) + epsilon);
        shift[i] = part(1) - part(2) * scale[i];
      }
    } else {
      if (node.inputs.size() != 2 ||
          node.attributes.String("auto_broadcast", "numpy").value_or("") != "numpy") {
        return false;
      }
      const bool first = node.inputs[0] == value;
      std::vector<double> operand = OfChannels(node.inputs[first ? 1 : 0], out, channels);
      if (operand.empty() || node.inputs[first ? 0 : 1] != value) {
        return false;
      }
      if (node.op == "Add") {
        shift = std::move(operand);
      } else if (node.op == "Multiply") {
        scale = std::move(operand);
      } else {
        return false;
      }
    }
    for (size_t i = 0; i < scale.size(); ++i) {
      affine.scale[i] *= scale[i];
      affine.shift[i] = affine.shift[i] * scale[i] + shift[i];
    }
    affine.scales = affine.scales || node.op != "Add";
    affine.last = index;
    return true;
  }

  std::optional<Affine> Find(int index) const {
    const Node& node = graph_.node(index);
    const bool grouped = node.op == "GroupConvolution";
    if ((!grouped && node.op != "Convolution") || info_.IsKnown(index)) {
      return std::nullopt;
    }
    const Tensor& filter = Known(node.inputs[1]);
    if (!filter.has_value() || filter.dtype() != DType::kF32 || filter.num_elements() == 0 ||
        !graph_.info({index, 0}).shape.has_rank()) {
      return std::nullopt;
    }
    const auto channels = static_cast<size_t>(filter.dim(0) * (grouped ? filter.dim(1) : 1));
    Affine affine{std::vector<double>(channels, 1), std::vector<double>(channels, 0)};
    // What lies behind the last factor is left to sums: a sum alone gains nothing.
    std::optional<Affine> best;
    for (int at = index; readers_[static_cast<size_t>(at)].size() == 1;) {
      at = readers_[static_cast<size_t>(at)][0];
      const ValueId value = {affine.last < 0 ? index : affine.last, 0};
      if (!Take(at, value, affine) || !affine.IsFinite()) {
        break;
      }
      if (affine.scales) {
        best = affine;
      }
    }
    return best;
  }

  void Append(int index, const Affine& affine, GraphCopy& copy) const {
    const Node& old = graph_.node(index);
    const Tensor& filter = Known(old.inputs[1]);
    Tensor scaled(DType::kF32, filter.shape());
    const int64_t size = filter.num_elements() / static_cast<int64_t>(affine.scale.size());
    for (int64_t i = 0; i < filter.num_elements(); ++i) {
      scaled.mutable_data<float>()[i] =
          static_cast<float>(filter.data<float>()[i] * affine.scale[static_cast<size_t>(i / size)]);
    }
    const PartialShape& out = graph_.info({index, 0}).shape;
    Shape dims(static_cast<size_t>(out.rank()), 1);
    dims[1] = static_cast<int64_t>(affine.shift.size());
    Tensor shift(DType::kF32, std::move(dims));
    for (size_t i = 0; i < affine.shift.size(); ++i) {
      shift.mutable_data<float>()[i] = static_cast<float>(affine.shift[i]);
    }
    Node convolution = copy.Moved(index);
    convolution.inputs[1] =
        AppendConstant(copy.to(), old.name + "/scaled_filter", std::move(scaled));
    for (ValueInfo& output : convolution.outputs) {
      output.names.clear();
    }
    Node sum;
    sum.op = "Add";
    sum.name = graph_.node(affine.last).name;
    sum.outputs = graph_.node(affine.last).outputs;
    sum.inputs = {AppendNode(copy.to(), std::move(convolution)),
                  AppendConstant(copy.to(), old.name + "/shift", std::move(shift))};
    copy.Keep(affine.last, std::move(sum));
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const std::vector<std::vector<int>> readers_;  // by node
};

}  // namespace

absl::StatusOr<bool> FoldNorms(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::optional<Graph> changed = NormFolder(graph, info).Run();
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
