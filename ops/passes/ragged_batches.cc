// GiveRowsLengths: ragged batches, without padding in any result. Reads context.encoder; changes
// nothing unless rows are proven apart and the source has an axis of positions.
//
//   before: Loop(slices of x) over all positions of the longest source; Attention(x)
//   after:  one Parameter more, the last: lengths [rows]; Loop(slices of x, lengths);
//           Attention(x, lengths)
//
// If every length is the whole axis, results are unchanged. Where a graph treats each position
// separately and only recurrent layers carry values from one to another, a row needs no mask: its
// layers get its length, leave the row out where it has ended, and begin with it at its own last
// position where they read backwards. An attention among the positions of a row gets its length as
// well, and looks no further. No result reads positions behind a row's end.
//
// 1. Layers that read lengths already lose them.
// 2. The rules of rows, with positions in their place (ops/compile/row_follower.h), prove that
//    nothing else connects positions: convolutions, attention with a mask, reductions and picks do.
//    Attention that is spelled out does, too, until JoinLayers makes one operator of it.
// 3. The layers get the lengths.
// 4. Rows are proven apart once more.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/row_follower.h"
#include "ops/compile/shape_targets.h"
#include "ops/graph/rewrite.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

LengthProof NoLengths(std::string why) { return {false, std::move(why), -1, {}, {}}; }

const PartialShape& ShapeOf(const Graph& graph, int parameter) {
  return graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].shape;
}

bool IsOpen(const PartialShape& shape, int axis) {
  return shape.has_rank() && axis < shape.rank() && shape.dim(axis) == PartialShape::kDynamic;
}

// Extents of the Parameters: the number of rows, and of positions, are a symbol each.
struct Sequences {
  Symbols symbols;
  Extent positions;
  std::vector<ValueExtents> parameters;
};

Sequences FindSequences(const RowInputs& inputs, const Graph& graph) {
  Sequences found;
  const Extent rows = found.symbols.New();
  found.parameters =
      ParametersWithRows(graph, std::vector<int>(graph.parameters.size(), 0), rows, found.symbols);
  const auto& source = found.parameters[static_cast<size_t>(inputs.source)].shape;
  found.positions = (*source)[static_cast<size_t>(inputs.length_axis)];
  if (inputs.mask >= 0 && IsOpen(ShapeOf(graph, inputs.mask), 1)) {
    (*found.parameters[static_cast<size_t>(inputs.mask)].shape)[1] = found.positions;
  }
  return found;
}

// Layers that run over each row's length, as the graph's own input says it, without these: of a row
// as long as the axis they compute the same.
Graph WithoutLengths(const RowInputs& inputs, const GraphInfo& info, const OperatorSet& operators,
                     const Graph& graph) {
  Graph whole = graph;
  if (inputs.lengths < 0) {
    return whole;
  }
  Sequences given = FindSequences(inputs, graph);
  given.parameters[static_cast<size_t>(inputs.lengths)].all = given.positions;
  const Extents extents = Extents::Find(graph, info, operators, given.symbols, given.parameters);
  for (Node& node : whole.nodes) {
    if (node.loop != nullptr && LengthsAreWhole(node, extents)) {
      auto loop = std::make_shared<Loop>(*node.loop);
      loop->items = Loop::Items::kTogether;
      loop->lengths_input = -1;
      node.loop = std::move(loop);
    }
  }
  return whole;
}

// Whether positions stay apart but for `layers`, the nodes that carry states along them. What the
// lengths that the graph reads are is not taken for known: rows will have their own.
LengthProof FollowPositions(const RowInputs& inputs, const GraphInfo& info,
                            const OperatorSet& operators, const Graph& graph,
                            std::vector<SequenceLoop>& layers) {
  Sequences given = FindSequences(inputs, graph);
  std::vector<RowInfo> parameters(graph.parameters.size(), RowInfo{Kind::kFixed});
  parameters[static_cast<size_t>(inputs.source)] = {Kind::kRows, inputs.length_axis, 1};
  if (inputs.mask >= 0) {
    parameters[static_cast<size_t>(inputs.mask)] = {Kind::kRows, 1, 1};
  }
  const Extents extents = Extents::Find(graph, info, operators, given.symbols, given.parameters);
  const RowFollower follower(graph, info, extents, RowExtents(given.positions, given.symbols),
                             parameters, {operators, given.symbols, nullptr, "positions", &layers});
  LengthProof proof;
  proof.holds = true;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const ValueId value = follower.ResultValue(static_cast<int>(i));
    const RowInfo& found = follower.of(value);
    if (found.kind == Kind::kMixed) {
      return NoLengths(follower.WhyMixed(value));
    }
    if (found.kind != Kind::kFixed && found.kind != Kind::kRows) {
      return NoLengths(absl::StrCat("output '", PortName(graph, graph.results[i]),
                                    "' follows from the number of positions"));
    }
    proof.result_axes.push_back(found.kind == Kind::kRows ? found.axis : -1);
    proof.result_factors.push_back(found.factor);
  }
  return proof;
}

ValueId Times(ValueId lengths, int64_t factor, const std::string& name, Graph& graph) {
  NodeAppender add(graph, name);
  return factor == 1 ? lengths : add.Add("Multiply", {lengths, add.Int(factor)});
}

// The graph with one Parameter more, from which `layers` read where each row ends.
Graph WithLengths(const Graph& graph, const std::vector<SequenceLoop>& layers) {
  GraphCopy copy(graph);
  Node parameter;
  parameter.op = "Parameter";
  parameter.name = "lengths of rows";
  parameter.outputs.resize(1);
  parameter.outputs[0].dtype = DType::kI64;
  parameter.outputs[0].shape = PartialShape({PartialShape::kDynamic});
  const ValueId lengths = AppendNode(copy.to(), std::move(parameter));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    Node node = copy.Moved(index);
    const auto layer = std::find_if(layers.begin(), layers.end(),
                                    [index](const SequenceLoop& one) { return one.node == index; });
    if (layer != layers.end() && node.loop == nullptr) {
      node.inputs.push_back(lengths);
    } else if (layer != layers.end()) {
      auto loop = std::make_shared<Loop>(*node.loop);
      loop->items = Loop::Items::kHeld;
      loop->lengths_input = static_cast<int>(node.inputs.size());
      node.inputs.push_back(Times(lengths, layer->factor, node.name, copy.to()));
      node.loop = std::move(loop);
      node.attributes.Set(kItemsLeave, true);
    }
    copy.Keep(index, std::move(node));
  }
  Graph result = std::move(copy).Finish();
  result.parameters.push_back(lengths.node);
  return result;
}

// `graph` and `info` change if the proof holds.
LengthProof GiveLengths(const RowInputs& inputs, const OperatorSet& operators, Graph& graph,
                        GraphInfo& info) {
  if (inputs.source < 0 || !IsOpen(ShapeOf(graph, inputs.source), inputs.length_axis)) {
    return NoLengths("no axis of the source is open");
  }
  if (inputs.mask >= 0 && !IsOpen(ShapeOf(graph, inputs.mask), 1)) {
    return NoLengths("the mask declares its length");
  }
  // 1.
  Graph whole = WithoutLengths(inputs, info, operators, graph);
  // 2.
  std::vector<SequenceLoop> layers;
  LengthProof proof = FollowPositions(inputs, info, operators, whole, layers);
  if (!proof.holds) {
    // Spelled out, attention mixes positions; as one operator it can be given lengths.
    GraphInfo joined_info = info;
    if (!JoinLayers(whole, joined_info, {operators}).ok()) {
      return proof;
    }
    layers.clear();
    LengthProof joined = FollowPositions(inputs, joined_info, operators, whole, layers);
    if (!joined.holds) {
      return proof;
    }
    proof = std::move(joined);
  }
  // 3.
  Graph own = WithLengths(whole, layers);
  absl::StatusOr<GraphInfo> own_info = InferGraph(own, operators);
  if (!own_info.ok()) {
    return NoLengths(std::string(own_info.status().message()));
  }
  // 4. Of rows that differ in their lengths, and of layers that do not see all of them. Rows are on
  // the axes that they had: a layer that reads lengths has them where it had them before.
  const RowProof rows = ProveRowsApart(own, *own_info, operators, {inputs.source, -1});
  if (!rows.separable) {
    return NoLengths(rows.reason);
  }
  graph = std::move(own);
  info = *std::move(own_info);
  proof.parameter = static_cast<int>(graph.parameters.size()) - 1;
  return proof;
}

}  // namespace

absl::StatusOr<bool> GiveRowsLengths(Graph& graph, GraphInfo& info, const PassContext& context) {
  EncoderRows* const rows = context.encoder;
  if (rows == nullptr || !rows->proof.separable || rows->inputs.length_axis <= 0) {
    return false;
  }
  rows->proof.lengths = GiveLengths(rows->inputs, context.operators, graph, info);
  return rows->proof.lengths.holds;
}

}  // namespace beamwright::ops
