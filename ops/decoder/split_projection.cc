// Splits the product with the vocabulary off a step's graph (SplitProjection). A step ends with
// logits = hidden W + b, perhaps with a softmax; computed apart, the scores can be made and scanned
// panel by panel, for those rows and tokens that are needed.
//
// Walk goes back from the result: over an Unsqueeze, a (log-)softmax over the last axis (the scan
// computes the log-sum-exp itself, so that the scores become logits), a bias, to a MatMul with a
// constant matrix. Each value on the way must have no other reader. The graph's result is then the
// hidden vector. Columns that only pad the vocabulary are dropped.
#include "ops/decoder/split_projection.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ops/kernels/shared_weights.h"

namespace beamwright::ops {
namespace {

// Walks from a result to the product behind it.
class Walk {
 public:
  Walk(const Graph& body, const GraphInfo& info, int result, ScoreKind kind)
      : body_(body), info_(info), at_(ReadBy(result)), kind_(kind) {}

  // False: the result cannot be split.
  bool Run() {
    if (body_.info(at_).dtype != DType::kF32) {
      return false;
    }
    CountUses();
    SkipUnsqueeze();
    if (!SkipSoftmax()) {
      return false;
    }
    SkipUnsqueeze();
    SkipBias();
    const Node& product = body_.node(at_.node);
    return product.op == "MatMul" && IsOurs() && FitsProduct(product);
  }

  ValueId input() const { return body_.node(at_.node).inputs[0]; }
  const Tensor& weight() const { return *Constant(body_.node(at_.node), 1); }
  bool transposed() const {
    return body_.node(at_.node).attributes.Bool("transpose_b", false).value_or(false);
  }
  const std::vector<float>& bias() const { return bias_; }
  ScoreKind kind() const { return kind_; }

 private:
  ValueId ReadBy(int node) const { return body_.node(node).inputs[0]; }

  // How often the values of each node are read.
  void CountUses() {
    uses_.assign(body_.nodes.size(), 0);
    for (const Node& node : body_.nodes) {
      for (const ValueId id : node.inputs) {
        if (id.present()) {
          ++uses_[static_cast<size_t>(id.node)];
        }
      }
    }
  }

  // Whether the value that the walk has reached has no other reader.
  bool IsOurs() const { return uses_[static_cast<size_t>(at_.node)] == 1; }

  const Tensor* Constant(const Node& node, size_t input) const {
    return info_.InputsOf(body_, node)[input].value;
  }

  bool IsLastAxis(const Node& node, int64_t axis) const {
    const PartialShape& shape = body_.info(node.inputs[0]).shape;
    return axis == -1 || (shape.has_rank() && axis == shape.rank() - 1);
  }

  // Axes of extent 1 in front of the last change nothing in the order of elements.
  void SkipUnsqueeze() {
    const Node& node = body_.node(at_.node);
    if (node.op != "Unsqueeze" || !IsOurs()) {
      return;
    }
    const PartialShape& before = body_.info(node.inputs[0]).shape;
    const PartialShape& after = node.outputs[0].shape;
    if (before.has_rank() && after.has_rank() && before.rank() > 0 &&
        before.dims().back() != PartialShape::kDynamic && before.dims().back() != 1 &&
        before.dims().back() == after.dims().back()) {
      at_ = node.inputs[0];
    }
  }

  // The scan takes a log-sum-exp of logits itself.
  bool SkipSoftmax() {
    const Node& node = body_.node(at_.node);
    const bool is_log = node.op == "LogSoftmax";
    if (is_log || node.op == "SoftMax") {
      const bool fits =
          is_log ? kind_ != ScoreKind::kProbabilities : kind_ == ScoreKind::kProbabilities;
      if (!fits || !IsOurs() || !IsLastAxis(node, node.attributes.Int("axis", 1).value_or(1))) {
        return false;
      }
      at_ = node.inputs[0];
      kind_ = ScoreKind::kLogits;
    }
    return kind_ == ScoreKind::kLogits;
  }

  void SkipBias() {
    const Node& node = body_.node(at_.node);
    if (node.op != "Add" || !IsOurs()) {
      return;
    }
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Tensor* const bias = Constant(node, side);
      const ValueId other = node.inputs[1 - side];
      const PartialShape& shape = body_.info(other).shape;
      if (bias != nullptr && bias->dtype() == DType::kF32 && bias->rank() > 0 && shape.has_rank() &&
          bias->rank() <= shape.rank() && shape.rank() > 0 &&
          bias->num_elements() == bias->shape().back() &&
          bias->num_elements() == shape.dims().back()) {
        bias_.assign(bias->data<float>(), bias->data<float>() + bias->num_elements());
        at_ = other;
        return;
      }
    }
  }

  // [rows, depth] or [rows, 1, depth] times a weight of rank 2 that is known.
  bool FitsProduct(const Node& product) const {
    const Tensor* const weight = Constant(product, 1);
    const PartialShape& shape = body_.info(product.inputs[0]).shape;
    return weight != nullptr && weight->dtype() == DType::kF32 && weight->rank() == 2 &&
           weight->num_elements() > 0 &&
           !product.attributes.Bool("transpose_a", false).value_or(true) && shape.has_rank() &&
           (shape.rank() == 2 || (shape.rank() == 3 && shape.dim(1) == 1));
  }

  const Graph& body_;
  const GraphInfo& info_;
  ValueId at_;
  ScoreKind kind_;
  std::vector<int> uses_;
  std::vector<float> bias_;
};

}  // namespace

std::unique_ptr<const VocabularyProjection> SplitProjection(Graph& body, const GraphInfo& info,
                                                            int result, int64_t num_tokens,
                                                            Precision weights, ScoreKind& kind) {
  const int node = body.results[static_cast<size_t>(result)];
  Walk walk(body, info, node, kind);
  if (!walk.Run()) {
    return nullptr;
  }
  const Tensor& weight = walk.weight();
  const int tokens_axis = walk.transposed() ? 0 : 1;
  std::array<int64_t, 2> dims = {weight.dim(0), weight.dim(1)};
  std::vector<float> bias = walk.bias();
  int64_t& columns = dims[static_cast<size_t>(tokens_axis)];
  if (ArePadded(columns, num_tokens)) {
    columns = num_tokens;
    bias.resize(std::min(bias.size(), static_cast<size_t>(num_tokens)));
  }
  auto packed = SharePacked({weight.data<float>(), dims[0], dims[1], weight.dim(1)},
                            walk.transposed(), weights, weight.lifetime());
  kind = walk.kind();
  auto projection = std::make_unique<const VocabularyProjection>(std::move(packed), bias);
  body.node(node).inputs[0] = walk.input();
  return projection;
}

}  // namespace beamwright::ops
