#include "ops/compile/part_axes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"

namespace beamwright::ops {
namespace {

// Axis `axis`, counted from the end if negative, of a value of this shape; nothing: its rank is not
// known, or it has no such axis.
std::optional<int64_t> FromFront(int64_t axis, const PartialShape& shape) {
  if (!shape.has_rank() || axis < -shape.rank() || axis >= shape.rank()) {
    return std::nullopt;
  }
  return axis < 0 ? axis + shape.rank() : axis;
}

// Rewrites one loop.
class AxisDropper {
 public:
  AxisDropper(const Loop& loop, const GraphInfo& info)
      : info_(info), loop_(loop), readers_(ReadersByNode(loop.body)) {}

  // Nothing: there is nothing to drop.
  std::optional<Loop> Run() {
    // Each item of a batch runs alone: rules count axes without the batch.
    if (loop_.items == Loop::Items::kApart) {
      return std::nullopt;
    }
    bool any = false;
    for (LoopInput& rule : loop_.inputs) {
      any = DropOfSlice(rule) || any;
    }
    for (LoopOutput& rule : loop_.outputs) {
      any = DropOfPart(rule) || any;
    }
    if (!any) {
      return std::nullopt;
    }
    loop_.body = DropUnneeded(loop_.body);
    return std::move(loop_);
  }

 private:
  // Whether `node`, which is of type `op`, takes away or adds this axis of `shape` alone.
  bool IsOfAxis(const Node& node, const char* op, int64_t axis, const PartialShape& shape) const {
    if (node.op != op || node.inputs.size() != 2) {
      return false;
    }
    const Tensor* const list = info_.InputsOf(loop_.body, node)[1].value;
    if (list == nullptr || list->num_elements() != 1) {
      return false;
    }
    const absl::StatusOr<std::vector<int64_t>> axes = ToInt64(*list);
    const std::optional<int64_t> wanted = FromFront(axis, shape);
    return axes.ok() && wanted.has_value() && FromFront(axes->front(), shape) == wanted;
  }

  bool DropOfSlice(LoopInput& rule) {
    if (rule.kind != LoopInput::Kind::kSliced || rule.drop_axis || rule.part_size != 1) {
      return false;
    }
    Graph& body = loop_.body;
    const int parameter = body.parameters[static_cast<size_t>(rule.body_parameter)];
    PartialShape& shape = body.nodes[static_cast<size_t>(parameter)].outputs[0].shape;
    const std::vector<int>& readers = readers_[static_cast<size_t>(parameter)];
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), [&](int reader) {
          return IsOfAxis(body.node(reader), "Squeeze", rule.axis, shape);
        })) {
      return false;
    }
    rule.axis = *FromFront(rule.axis, shape);
    rule.drop_axis = true;
    Shape dims = shape.dims();
    dims.erase(dims.begin() + rule.axis);
    shape = PartialShape(std::move(dims));
    for (const int squeeze : readers) {
      for (const int reader : readers_[static_cast<size_t>(squeeze)]) {
        for (ValueId& input : body.nodes[static_cast<size_t>(reader)].inputs) {
          if (input.node == squeeze) {
            input = {parameter, 0};
          }
        }
      }
    }
    return true;
  }

  // How many rules read a result of the body.
  int64_t NumReaders(int result) const {
    return std::count_if(loop_.outputs.begin(), loop_.outputs.end(),
                         [&](const LoopOutput& rule) { return rule.body_result == result; }) +
           std::count_if(loop_.inputs.begin(), loop_.inputs.end(),
                         [&](const LoopInput& rule) {
                           return rule.kind == LoopInput::Kind::kCarried &&
                                  rule.back_edge == result;
                         }) +
           (loop_.condition_result == result ? 1 : 0);
  }

  bool DropOfPart(LoopOutput& rule) {
    if (rule.kind != LoopOutput::Kind::kConcatenated || rule.part_size != 1 ||
        NumReaders(rule.body_result) != 1) {
      return false;
    }
    Graph& body = loop_.body;
    Node& result =
        body.nodes[static_cast<size_t>(body.results[static_cast<size_t>(rule.body_result)])];
    const PartialShape shape = body.info(result.inputs[0]).shape;
    const Node& unsqueeze = body.node(result.inputs[0].node);
    if (!IsOfAxis(unsqueeze, "Unsqueeze", rule.axis, shape)) {
      return false;
    }
    rule.axis = *FromFront(rule.axis, shape);
    rule.kind = LoopOutput::Kind::kStacked;
    result.inputs[0] = unsqueeze.inputs[0];
    for (ValueInfo& output : result.outputs) {
      output.shape = PartialShape();
    }
    return true;
  }

  const GraphInfo& info_;
  Loop loop_;
  const std::vector<std::vector<int>> readers_;  // of the body as it was
};

}  // namespace

absl::Status DropPartAxes(Graph& graph, GraphInfo& info, const OperatorSet& operators) {
  std::optional<Graph> changed;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.loop == nullptr) {
      continue;
    }
    if (std::optional<Loop> loop = AxisDropper(*node.loop, *info.bodies[i][0]).Run()) {
      if (!changed.has_value()) {
        changed = graph;
      }
      changed->nodes[i].loop = std::make_shared<const Loop>(*std::move(loop));
    }
  }
  return TakeChanged(std::move(changed), graph, info, operators);
}

}  // namespace beamwright::ops
