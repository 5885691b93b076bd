// OpenBatch: an encoder exported for a batch of 1 takes any number of sources, if they are proven
// to stay apart then. Reads context.encoder; changes nothing if they are proven apart already.
//
//   before: Parameter [1, time, width], first states [1, ..], Reshapes that write 1
//   after:  Parameter [rows, time, width], first states for each row, Reshapes that keep rows
//
// Every row is computed as if it were alone, so one row gives what the file gives. Otherwise the
// graph stays, and the proof's reason says why.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/graph/rewrite.h"
#include "ops/passes/passes.h"

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

// Opens `graph`, as the importer leaves it, and proves that rows stay apart: `opened`, `info` and
// rows.proof are of the opened graph then. Returns the obstacle, in which case they are not
// touched; empty without one.
std::string Open(Graph graph, const OperatorSet& operators, const EncoderRows& rows, Graph& opened,
                 GraphInfo& info) {
  if (rows.inputs.source < 0) {
    return "it is not known which input is the source";
  }
  absl::StatusOr<GraphInfo> known = InferGraph(graph, operators);
  if (known.ok()) {
    graph = FirstStates(graph, *known, rows.inputs.source).Repeat();
    known = InferGraph(graph, operators);
  }
  if (known.ok()) {
    const PassContext context{operators, std::vector<int>(graph.parameters.size(), 0)};
    const absl::Status folded = FoldShapes(graph, *known, context).status();
    known = folded.ok() ? std::move(known) : folded;
  }
  if (!known.ok()) {
    return std::string(known.status().message());
  }
  bool has_scales = false;
  RowProof found = ScaleByItem(*known, operators, rows.inputs, graph, has_scales);
  if (!found.separable) {
    return found.reason;
  }
  opened = std::move(graph);
  info = *std::move(known);
  rows.proof = std::move(found);
  return "";
}

}  // namespace

bool IsForOneRow(const Graph& graph) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(), [&](int parameter) {
    const PartialShape& shape = graph.node(parameter).outputs[0].shape;
    return shape.has_rank() && shape.rank() > 0 && shape.dim(0) == 1;
  });
}

absl::StatusOr<bool> OpenBatch(Graph& graph, GraphInfo& info, const PassContext& context) {
  EncoderRows* const rows = context.encoder;
  if (rows == nullptr || rows->as_exported == nullptr || rows->proof.separable ||
      !IsForOneRow(*rows->as_exported)) {
    return false;
  }
  const std::string why = Open(*rows->as_exported, context.operators, *rows, graph, info);
  if (!why.empty()) {
    absl::StrAppend(&rows->proof.reason, ", and it can't be opened to more: ", why);
  }
  return why.empty();
}

}  // namespace beamwright::ops
