#include "ops/compile/opened_batch.h"

#include <algorithm>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/item_scales.h"
#include "ops/compile/shape_folding.h"
#include "ops/graph/node_appender.h"

namespace beamwright::ops {
namespace {

// Recurrent layers whose first states are constants [1, ..], as exporters fold zeros for a batch of
// 1: they start so for each row. Reads the number of rows off a Parameter.
class FirstStates {
 public:
  FirstStates(const Graph& graph, const GraphInfo& info, int source)
      : graph_(graph),
        info_(info),
        source_(graph.parameters[static_cast<size_t>(source)]),
        copy_(graph) {}

  Graph Repeat() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto index = static_cast<int>(i);
      Node node = copy_.Moved(index);
      if (node.loop != nullptr && node.loop->items != Loop::Items::kApart) {
        RepeatFor(index, node);
      }
      copy_.Keep(index, std::move(node));
    }
    return std::move(copy_).Finish();
  }

 private:
  void RepeatFor(int index, Node& node) {
    const std::vector<LoopInput>& rules = node.loop->inputs;
    const bool slices = std::any_of(rules.begin(), rules.end(), [](const LoopInput& rule) {
      return rule.kind == LoopInput::Kind::kSliced;
    });
    for (size_t i = 0; slices && i < rules.size(); ++i) {
      if (rules[i].kind != LoopInput::Kind::kCarried) {
        continue;
      }
      const ValueId start = graph_.node(index).inputs[static_cast<size_t>(rules[i].input)];
      const PartialShape& shape = graph_.info(start).shape;
      const bool is_known =
          info_.constants[static_cast<size_t>(start.node)][static_cast<size_t>(start.output)]
              .has_value();
      if (!is_known || !shape.is_static() || shape.rank() < 2 || shape.dim(0) != 1) {
        continue;
      }
      NodeAppender add(copy_.to(), node.name);
      const std::vector<int64_t> others(shape.dims().begin() + 1, shape.dims().end());
      const ValueId rows = add.Add(
          "Gather", {add.Add("ShapeOf", {copy_.Of({source_, 0})}), add.Ints({0}), add.Int(0)});
      node.inputs[static_cast<size_t>(rules[i].input)] =
          add.Add("Broadcast", {copy_.Of(start), add.Concat({rows, add.Ints(others)}, 0)});
    }
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const int source_;  // Parameter node
  GraphCopy copy_;
};

}  // namespace

bool IsForOneRow(const Graph& graph) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(), [&](int parameter) {
    const PartialShape& shape = graph.node(parameter).outputs[0].shape;
    return shape.has_rank() && shape.rank() > 0 && shape.dim(0) == 1;
  });
}

std::string OpenBatch(Graph graph, const OperatorSet& operators, const RowInputs& rows,
                      Graph& opened, GraphInfo& info, RowProof& proof) {
  if (rows.source < 0) {
    return "it is not known which input is the source";
  }
  absl::StatusOr<GraphInfo> known = InferGraph(graph, operators);
  if (known.ok()) {
    graph = FirstStates(graph, *known, rows.source).Repeat();
    known = InferGraph(graph, operators);
  }
  if (known.ok()) {
    const std::vector<int> row_axes(graph.parameters.size(), 0);
    const absl::Status folded = FoldShapes(graph, *known, operators, row_axes);
    known = folded.ok() ? std::move(known) : folded;
  }
  if (!known.ok()) {
    return std::string(known.status().message());
  }
  RowProof found = TakeScalesByItem(*known, operators, rows, graph);
  if (!found.separable) {
    return found.reason;
  }
  opened = std::move(graph);
  info = *std::move(known);
  proof = std::move(found);
  return "";
}

}  // namespace beamwright::ops
