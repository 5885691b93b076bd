// DropPartAxes: squeeze elimination in bodies of loops.
//
//   before: Loop(slices [1, rows, width]) { Unsqueeze(f(Squeeze(slice))) }, parts joined by Concat
//   after:  Loop(slices [rows, width]) { f(slice) }, parts stacked along a new axis
//
// A TensorIterator's slices and parts keep the axis along which they are cut; removing and
// restoring it costs more in an iteration than a small body's arithmetic. Loops inside bodies stay.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/inputs.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

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
  // Axis `axis` of `shape` from the front, if `node` is of type `op` and takes away or adds that
  // one alone.
  std::optional<int> AxisOf(const Node& node, const char* op, int64_t axis,
                            const PartialShape& shape) const {
    if (node.op != op || node.inputs.size() != 2 || !shape.has_rank()) {
      return std::nullopt;
    }
    const absl::StatusOr<int> own = NormalizeAxis(axis, shape.rank());
    const absl::StatusOr<std::optional<Ints>> named =
        ReadAxes(info_.InputsOf(loop_.body, node)[1], "axes", shape.rank());
    return own.ok() && named.ok() && *named == Ints{*own} ? std::optional(*own) : std::nullopt;
  }

  bool DropOfSlice(LoopInput& rule) {
    if (rule.kind != LoopInput::Kind::kSliced || rule.drop_axis || rule.part_size != 1) {
      return false;
    }
    Graph& body = loop_.body;
    const int parameter = body.parameters[static_cast<size_t>(rule.body_parameter)];
    PartialShape& shape = body.nodes[static_cast<size_t>(parameter)].outputs[0].shape;
    const std::vector<int>& readers = readers_[static_cast<size_t>(parameter)];
    std::optional<int> axis;
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), [&](int reader) {
          axis = AxisOf(body.node(reader), "Squeeze", rule.axis, shape);
          return axis.has_value();
        })) {
      return false;
    }
    rule.axis = *axis;
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
    const Node& unsqueeze = body.node(result.inputs[0].node);
    const std::optional<int> axis =
        AxisOf(unsqueeze, "Unsqueeze", rule.axis, body.info(result.inputs[0]).shape);
    if (!axis.has_value()) {
      return false;
    }
    rule.axis = *axis;
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

absl::StatusOr<bool> DropPartAxes(Graph& graph, GraphInfo& info, const PassContext& context) {
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
  return TakeChanged(std::move(changed), graph, info, context);
}

}  // namespace beamwright::ops
