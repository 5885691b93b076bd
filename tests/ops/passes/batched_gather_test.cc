// memory[arange(rows), places]: as the exporters write it, and as rows that stand apart pick from
// their own.
#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

struct Inputs {
  Value memory;  // [rows, 5, 2]
  Value places;  // [rows]
};

Inputs AddInputs(GraphBuilder& graph) {
  return {graph.Parameter("memory", DType::kF32, {-1, -1, 2}),
          graph.Parameter("places", DType::kI64, {-1})};
}

Value Extent(GraphBuilder& graph, Value value, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Int(axis), graph.Int(0)});
}

Value Counting(GraphBuilder& graph, Value count, int64_t from = 0) {
  return graph.Add("Range", {graph.Int(from), count, graph.Int(1)},
                   {{"output_type", std::string("i64")}});
}

// As PyTorch's newer exporter writes it.
Value ByTuples(GraphBuilder& graph, const Inputs& in, Value numbers) {
  const Value tuples = graph.Add("Concat",
                                 {graph.Add("Unsqueeze", {numbers, graph.Ints({-1})}),
                                  graph.Add("Unsqueeze", {in.places, graph.Ints({-1})})},
                                 {{"axis", int64_t{-1}}});
  return graph.Add("GatherND", {in.memory, tuples}, {{"batch_dims", int64_t{0}}});
}

// As its older one does, and OpenVINO's converter.
Value ByJoinedPlaces(GraphBuilder& graph, const Inputs& in, Value numbers, Value stride) {
  const Value joined =
      graph.Add("Reshape", {in.memory, graph.Ints({-1, 2})}, {{"special_zero", true}});
  const Value place = graph.Add("Add", {in.places, graph.Add("Multiply", {numbers, stride})});
  return graph.Add("Gather", {joined, place, graph.Int(0)});
}

Graph Folded(Graph graph) { return FoldGraph(std::move(graph), {0, 0}).graph; }

bool CountsRows(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.op == "Range"; });
}

void ExpectSame(const Graph& built, const Graph& folded) {
  std::vector<float> values(4 * 5 * 2);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::vector<Tensor> inputs = {Tensor::Of<float>({4, 5, 2}, values),
                                      Tensor::Of<int64_t>({4}, std::vector<int64_t>{3, 0, 4, 1})};
  const auto expected = RunAsItIs(built, inputs);
  const auto actual = RunAsItIs(folded, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(actual.ok()) << actual.status();
  testing_support::ExpectSameBits(*actual, *expected);
}

TEST(PickedByRowTest, ByTuples) {
  GraphBuilder graph;
  const Inputs in = AddInputs(graph);
  graph.Result("r", ByTuples(graph, in, Counting(graph, Extent(graph, in.places, 0))));
  const Graph built = graph.Build();
  const Graph folded = Folded(built);
  EXPECT_FALSE(CountsRows(folded));
  ExpectSame(built, folded);
}

TEST(PickedByRowTest, ByJoinedPlaces) {
  GraphBuilder graph;
  const Inputs in = AddInputs(graph);
  const Value numbers = Counting(graph, Extent(graph, in.memory, 0));
  graph.Result("r", ByJoinedPlaces(graph, in, numbers, Extent(graph, in.memory, 1)));
  const Graph built = graph.Build();
  const Graph folded = Folded(built);
  EXPECT_FALSE(CountsRows(folded));
  ExpectSame(built, folded);
}

// Numbers that do not count the rows, and a stride that is not the axis'.
TEST(PickedByRowTest, WhatIsNotARowsOwnStays) {
  GraphBuilder other_start;
  const Inputs first = AddInputs(other_start);
  const Value rows =
      other_start.Add("Subtract", {Extent(other_start, first.places, 0), other_start.Int(1)});
  other_start.Result("r", ByTuples(other_start, first, Counting(other_start, rows, /*from=*/-1)));
  EXPECT_TRUE(CountsRows(Folded(other_start.Build())));

  GraphBuilder other_stride;
  const Inputs second = AddInputs(other_stride);
  const Value numbers = Counting(other_stride, Extent(other_stride, second.memory, 0));
  other_stride.Result("r", ByJoinedPlaces(other_stride, second, numbers, other_stride.Int(3)));
  EXPECT_TRUE(CountsRows(Folded(other_stride.Build())));
}

// x[:y.size(0), :y.size(1)] of an x with as many rows: the rows need not be cut.
TEST(PickedByRowTest, ASliceKeepsTheAxesThatItCuts) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1});
  const Value y = graph.Parameter("y", DType::kF32, {-1, -1});
  graph.Result("r", graph.Add("Slice", {x, graph.Ints({0, 0}), graph.Add("ShapeOf", {y}),
                                        graph.Ints({1, 1})}));
  const Graph built = graph.Build();
  const Graph folded = Folded(built);
  const auto slice = std::find_if(folded.nodes.begin(), folded.nodes.end(),
                                  [](const Node& node) { return node.op == "Slice"; });
  ASSERT_NE(slice, folded.nodes.end());
  ASSERT_EQ(slice->inputs.size(), 5u);
  EXPECT_EQ(folded.node(slice->inputs[4].node).constant.num_elements(), 1);
  const auto expected =
      RunAsItIs(built, {Tensor::Of<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                        Tensor::Of<float>({2, 2}, std::vector<float>(4))});
  const auto actual =
      RunAsItIs(folded, {Tensor::Of<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                         Tensor::Of<float>({2, 2}, std::vector<float>(4))});
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  testing_support::ExpectSameBits(*actual, *expected);
}

}  // namespace
}  // namespace beamwright::ops
