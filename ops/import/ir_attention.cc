#include "ops/import/ir_attention.h"

#include <cmath>
#include <limits>

#include "ops/base/status.h"
#include "ops/graph/node_appender.h"

namespace beamwright::ops {
namespace {

Attributes With(const char* name, AttributeValue value) {
  Attributes attributes;
  attributes.Set(name, std::move(value));
  return attributes;
}

class AttentionLowering {
 public:
  AttentionLowering(const Node& node, Graph& graph)
      : node_(node), graph_(graph), add_(graph, node.name) {}

  absl::StatusOr<ValueId> Run() {
    const ValueId query = node_.inputs[0];
    const ValueId key = node_.inputs[1];
    BW_ASSIGN_OR_RETURN(const bool is_causal, node_.attributes.Bool("causal", false));
    ValueId scores = add_.Add("MatMul", {query, key}, With("transpose_b", true));
    scores = add_.Add("Multiply", {scores, Scale()});
    if (is_causal) {
      scores = add_.Add("Select", {Earlier(), scores, Like(kLowest)});
    } else if (HasMask()) {
      BW_ASSIGN_OR_RETURN(scores, Masked(scores));
    }
    const ValueId shares = add_.Add("SoftMax", {scores}, With("axis", int64_t{-1}));
    const ValueId read = add_.Add("MatMul", {shares, node_.inputs[2]});
    graph_.node(read.node).outputs = node_.outputs;
    return read;
  }

 private:
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();

  // A scalar of the queries' type.
  ValueId Like(float number) {
    const absl::StatusOr<Tensor> typed =
        Convert(Tensor::Scalar(number), graph_.info(node_.inputs[0]).dtype);
    if (typed.ok()) {
      return add_.Constant(*typed);
    }
    return add_.Add("ConvertLike", {add_.Constant(Tensor::Scalar(number)), node_.inputs[0]});
  }

  // Axis -1 or -2 of an input, an i64 scalar.
  ValueId Extent(ValueId value, int64_t axis) {
    return add_.Pick(add_.Add("ShapeOf", {value}), axis, 0);
  }

  ValueId Scale() {
    if (node_.inputs.size() > 4) {
      return node_.inputs[4];
    }
    const PartialShape& shape = graph_.info(node_.inputs[0]).shape;
    const int64_t declared = shape.has_rank() && shape.rank() > 0 ? shape.dims().back() : -1;
    if (declared > 0) {
      return Like(static_cast<float>(1 / std::sqrt(static_cast<double>(declared))));
    }
    const ValueId width = add_.Add("ConvertLike", {Extent(node_.inputs[0], -1), node_.inputs[0]});
    return add_.Add("Power", {width, Like(-0.5F)});
  }

  // Whether a key stands no later than a query: [queries, keys].
  ValueId Earlier() {
    const auto counting = [&](ValueId count) {
      return add_.Add("Range", {add_.Int(0), count, add_.Int(1)},
                      With("output_type", std::string("i64")));
    };
    const ValueId queries = counting(Extent(node_.inputs[0], -2));
    return add_.Add("LessEqual", {counting(Extent(node_.inputs[1], -2)),
                                  add_.Add("Unsqueeze", {queries, add_.Ints({1})})});
  }

  // A scalar stands for none where a scale follows.
  bool HasMask() const {
    if (node_.inputs.size() < 4) {
      return false;
    }
    const PartialShape& shape = graph_.info(node_.inputs[3]).shape;
    return !(node_.inputs.size() > 4 && shape.has_rank() && shape.rank() == 0);
  }

  absl::StatusOr<ValueId> Masked(ValueId scores) {
    const DType type = graph_.info(node_.inputs[3]).dtype;
    if (type == DType::kUndefined) {
      return Invalid("attention_mask: its element type is not declared");
    }
    return type == DType::kBool ? add_.Add("Select", {node_.inputs[3], scores, Like(kLowest)})
                                : add_.Add("Add", {scores, node_.inputs[3]});
  }

  const Node& node_;
  Graph& graph_;
  NodeAppender add_;
};

}  // namespace

absl::StatusOr<ValueId> AppendAttention(const Node& node, Graph& graph) {
  if (node.inputs.size() == 6) {
    return absl::UnimplementedError("a sixth input, 'sink', is not supported");
  }
  if (node.inputs.size() < 3 || node.inputs.size() > 6 || node.outputs.size() != 1) {
    return Invalid("has ", node.inputs.size(), " inputs and ", node.outputs.size(),
                   " outputs; it takes 3 to 5, and has one");
  }
  return AttentionLowering(node, graph).Run();
}

}  // namespace beamwright::ops
