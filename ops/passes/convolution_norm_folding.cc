// FoldNorms: what scales and shifts the channels of a convolution becomes part of its filter.
//
//   before: BatchNormInference(Convolution(x, filter))
//           Multiply(Add(Convolution(x, filter), b), c)
//   after:  Add(Convolution(x, filter * scale), shift)
//
// scale and shift are computed in f64 and rounded once; results differ from those of the graph in
// their last bits (docs/numerics.md). Filters and operands must be known, and nothing else may read
// what lies between.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
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
