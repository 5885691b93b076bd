// Positions that a step repeats for each row before it adds them: the repeat goes, to the same
// bits, unless something needs it.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

struct Step {
  const char* op = "Tile";
  bool adds = true;      // the positions to what the tokens are looked up as
  bool is_read = false;  // the repeated positions by a result, too
};

// tokens [rows, 1], cache [rows, length, 2]: the tokens' vectors and that of place `length`.
Graph Positions(const Step& step) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, 1});
  const Value cache = graph.Parameter("cache", DType::kF32, {-1, -1, 2});
  const auto extent = [&](Value value, int64_t axis) {
    return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Ints({axis}), graph.Int(0)});
  };
  const Value table = graph.Constant(Tensor::Of<float>(
      {4, 2}, std::vector<float>{0.5f, 1.0f, -2.0f, 3.0f, 0.25f, 7.0f, 1.5f, -1.0f}));
  const Value place = graph.Add("Unsqueeze", {extent(cache, 1), graph.Ints({0})});
  const Value target =
      graph.Add("Concat", {extent(tokens, 0), graph.Ints({1})}, {{"axis", int64_t{0}}});
  const Value places = graph.Add(step.op, {place, target});
  const Value picked = graph.Add("Gather", {table, places, graph.Int(0)});
  const Value words = graph.Add("Gather", {table, tokens, graph.Int(0)});
  graph.Result("y", step.adds ? graph.Add("Add", {words, picked}) : picked);
  if (step.is_read) {
    graph.Result("places", places);
  }
  return graph.Build();
}

Graph Folded(Graph graph) { return FoldGraph(std::move(graph), {0, 0}).graph; }

bool Repeats(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op == "Tile" || node.op == "Broadcast"; });
}

TEST(NeedlessRepeatsTest, GoWhereTheyAreAddedToRows) {
  for (const char* const op : {"Tile", "Broadcast"}) {
    SCOPED_TRACE(op);
    const Graph built = Positions({op});
    const Graph folded = Folded(built);
    EXPECT_FALSE(Repeats(folded));
    const std::vector<Tensor> inputs = {Tensor::Of<int64_t>({3, 1}, std::vector<int64_t>{2, 0, 3}),
                                        Tensor(DType::kF32, {3, 1, 2})};
    const auto expected = RunAsItIs(built, inputs);
    const auto got = RunAsItIs(folded, inputs);
    ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
    testing_support::ExpectSameBits(*got, *expected);
  }
}

TEST(NeedlessRepeatsTest, StayWhereSomethingHasRowsOfThemAlone) {
  EXPECT_TRUE(Repeats(Folded(Positions({"Tile", false}))));
  EXPECT_TRUE(Repeats(Folded(Positions({"Tile", true, true}))));
}

}  // namespace
}  // namespace beamwright::ops
