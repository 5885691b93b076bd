// Scores by relative position that a graph picks through computed indices: one node, with the same
// bits, and only where the indices are those of a moving window.
#include <algorithm>

#include "gtest/gtest.h"
#include "ops/compile/row_proof.h"
#include "ops/loop/operators.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::ExpectSame;
using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

constexpr int64_t kHeads = 2;

Value Extent(GraphBuilder& graph, Value value, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Int(axis), graph.Int(0)});
}
Value AsList(GraphBuilder& graph, Value scalar) {
  return graph.Add("Unsqueeze", {scalar, graph.Ints({0})});
}
Value Concat(GraphBuilder& graph, std::vector<Value> values) {
  return graph.Add("Concat", std::move(values), {{"axis", int64_t{0}}});
}
Value Range(GraphBuilder& graph, Value start, Value stop, Value step) {
  return graph.Add("Range", {start, stop, step}, {{"output_type", std::string("i64")}});
}

struct Picks {
  int64_t time = -1;  // the extents of the scores that the graph declares, -1: open
  int64_t places = -1;
  int64_t keys = -1;  // -1: as many as there are steps
  int64_t first = 0;  // of the columns
  int64_t less = 1;   // row 0 begins at time - less
};

// As icefall's zipformer is traced: scores [heads, rows, time, places].
Graph Traced(const Picks& picks) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, kHeads, picks.time, picks.places});
  const Value scores = graph.Add("Transpose", {x, graph.Ints({1, 0, 2, 3})});
  const Value heads = Extent(graph, scores, 0);
  const Value rows = Extent(graph, scores, 1);
  const Value time = Extent(graph, scores, 2);
  const Value places = Extent(graph, scores, 3);
  const Value keys = picks.keys < 0 ? time : graph.Int(picks.keys);
  const Value down = Range(graph, graph.Add("Subtract", {time, graph.Int(picks.less)}),
                           graph.Int(-picks.less), graph.Int(-1));
  const Value up = Range(graph, graph.Int(picks.first),
                         picks.first == 0 ? keys : graph.Add("Add", {keys, graph.Int(picks.first)}),
                         graph.Int(1));
  const Value count = AsList(graph, graph.Add("Multiply", {rows, heads}));
  const Value tiled = graph.Add("Tile", {down, count});
  const Value indices = graph.Add("Add", {graph.Add("Unsqueeze", {tiled, graph.Ints({-1})}), up});
  const Value joined =
      graph.Add("Reshape", {scores, Concat(graph, {graph.Ints({-1}), AsList(graph, places)})});
  const Value picked = graph.Add("GatherElements", {joined, indices}, {{"axis", int64_t{1}}});
  graph.Result("y", graph.Add("Reshape",
                              {picked, Concat(graph, {AsList(graph, heads), AsList(graph, rows),
                                                      AsList(graph, time), AsList(graph, keys)})}));
  return graph.Build();
}

struct Found {
  Graph graph;
  RowProof proof;
  int64_t num_shifts = 0;
};

Found Fold(Graph graph) {
  FoldedGraph folded = FoldGraph(std::move(graph));
  Found found;
  found.proof = ProveRowsApart(folded.graph, folded.info, Operators());
  found.num_shifts = std::count_if(folded.graph.nodes.begin(), folded.graph.nodes.end(),
                                   [](const Node& node) { return node.op == "RelativeShift"; });
  found.graph = std::move(folded.graph);
  return found;
}

// A chunk of 4 steps with 3 steps of the past.
TEST(RelativeShiftsTest, OfAChunkOfKnownLengthWithAPast) {
  const Graph built = Traced({.time = 4, .places = 10, .keys = 7});
  const Found found = Fold(built);
  EXPECT_EQ(found.num_shifts, 1);
  EXPECT_TRUE(found.proof.separable) << found.proof.reason;
  for (const int64_t rows : {1, 3}) {
    ExpectSame(built, found.graph, {rows, kHeads, 4, 10});
  }
}

TEST(RelativeShiftsTest, OfASequenceOfOpenLength) {
  const Graph built = Traced({});
  const Found found = Fold(built);
  EXPECT_EQ(found.num_shifts, 1);
  EXPECT_TRUE(found.proof.separable) << found.proof.reason;
  for (const int64_t time : {1, 2, 5}) {
    ExpectSame(built, found.graph, {3, kHeads, time, 2 * time - 1});
  }
}

TEST(RelativeShiftsTest, IndicesOfOtherWindowsStay) {
  for (const Picks& picks : {Picks{.time = 4, .places = 10, .keys = 6, .first = 1},
                             Picks{.time = 4, .places = 10, .keys = 6, .less = 0}}) {
    const Found found = Fold(Traced(picks));
    EXPECT_EQ(found.num_shifts, 0);
    EXPECT_FALSE(found.proof.separable);
  }
}

}  // namespace
}  // namespace beamwright::ops
