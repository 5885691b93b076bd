// Axes that are joined for a Transpose, or for nothing, and come apart behind it: the folded graph
// gives the same bits, and only where the axes are the same.

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::Count;
using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

Tensor Counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::Of<float>(shape, values);
}

Value Extent(GraphBuilder& graph, Value value, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Ints({axis}), graph.Int(0)});
}

Value Reshape(GraphBuilder& graph, Value data, const std::vector<Value>& extents) {
  const Value pattern = graph.Add("Concat", extents, {{"axis", int64_t{0}}});
  return graph.Add("Reshape", {data, pattern}, {{"special_zero", false}});
}

Graph Folded(Graph graph) { return FoldGraph(std::move(graph), {0}).graph; }

void ExpectSame(const Graph& built, const Graph& folded, const Shape& shape) {
  const auto expected = RunAsItIs(built, {Counting(shape)});
  const auto actual = RunAsItIs(folded, {Counting(shape)});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(actual.ok()) << actual.status();
  testing_support::ExpectSameBits(*actual, *expected);
}

// As PyTorch decomposes a transposed product: [rows, heads, time, width] becomes
// [rows * heads, time, width], then [.., width, time], then [rows, heads, width, time].
TEST(JoinedTransposesTest, TheKeysOfAttention) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 3, -1, 4});
  const Value joined = Reshape(graph, x, {graph.Ints({-1}), Extent(graph, x, 2), graph.Ints({4})});
  const Value turned = graph.Add("Transpose", {joined, graph.Ints({0, 2, 1})});
  graph.Result(
      "r", Reshape(graph, turned, {Extent(graph, x, 0), graph.Ints({3, 4}), Extent(graph, x, 2)}));
  const Graph built = graph.Build();
  const Graph folded = Folded(built);
  // No value joins rows with heads.
  for (const Node& node : folded.nodes) {
    EXPECT_NE(node.outputs.empty() ? 4 : node.outputs[0].shape.rank(), 3) << node.name;
  }
  EXPECT_EQ(Count(folded, "ShapeOf"), 0);
  for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{1, 3, 1, 4}, Shape{4, 3, 4, 4}}) {
    ExpectSame(built, folded, shape);
  }
}

// time first: [time, rows, heads * width] becomes [time, rows * heads, width], then
// [rows * heads, time, width], then [rows, heads, time, width].
TEST(JoinedTransposesTest, HeadsThatLeaveTheWidth) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, -1, 12});
  const Value rows =
      graph.Add("Multiply", {Extent(graph, x, 1), graph.Ints({3})}, {}, "rows * heads");
  const Value joined = Reshape(graph, x, {Extent(graph, x, 0), rows, graph.Ints({4})});
  const Value turned = graph.Add("Transpose", {joined, graph.Ints({1, 0, 2})});
  graph.Result(
      "r", Reshape(graph, turned,
                   {Extent(graph, x, 1), graph.Ints({3}), Extent(graph, x, 0), graph.Ints({4})}));
  const Graph built = graph.Build();
  const Graph folded = Folded(built);
  EXPECT_EQ(Count(folded, "ShapeOf"), 0);
  for (const Shape& shape : {Shape{5, 2, 12}, Shape{1, 1, 12}, Shape{2, 5, 12}}) {
    ExpectSame(built, folded, shape);
  }
}

// Without a Transpose, as for a mask that is joined for nothing.
TEST(JoinedTransposesTest, NothingBetween) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 3, 1, -1});
  const Value rows = graph.Add("Multiply", {Extent(graph, x, 0), graph.Ints({3})});
  const Value joined = Reshape(graph, x, {rows, graph.Ints({1}), Extent(graph, x, 3)});
  graph.Result(
      "r", Reshape(graph, joined, {Extent(graph, x, 0), graph.Ints({3, -1}), Extent(graph, x, 3)}));
  const Graph built = graph.Build();
  const Graph folded = Folded(built);
  EXPECT_EQ(Count(folded, "ShapeOf"), 0);
  EXPECT_EQ(Count(folded, "Reshape"), 1);
  for (const Shape& shape : {Shape{2, 3, 1, 5}, Shape{1, 3, 1, 1}}) {
    ExpectSame(built, folded, shape);
  }
}

// Whether the pass rewrites the graph, of whose Parameters this is known besides their shapes.
bool Rewrites(Graph graph, const std::vector<ValueExtents>& parameters = {}) {
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  Symbols symbols;
  const Extents extents = Extents::Find(graph, *info, Operators(), symbols, parameters);
  const ShapeFacts shapes{extents, nullptr, false};
  PassContext context{Operators()};
  context.shapes = &shapes;
  return SplitJoinedTransposes(graph, *info, context).value();
}

// Whether Reshapes of x [rows, 3, length, 4] are rewritten: one with extents `joined` of its axes,
// then one with `apart` of them; both lists of how many axes each of theirs is the product of.
// `is_constant`: of a constant in the place of x.
bool IsSplit(const std::vector<int>& joined, const std::vector<int>& apart, bool is_constant) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 3, -1, 4});
  const Value data = is_constant ? graph.Constant(Counting({2, 3, 5, 4})) : x;
  const auto grouped = [&](const Value& value, const std::vector<int>& groups) {
    std::vector<Value> extents;
    int64_t axis = 0;
    for (const int count : groups) {
      Value extent = Extent(graph, data, axis++);
      for (int i = 1; i < count; ++i) {
        extent = graph.Add("Multiply", {extent, Extent(graph, data, axis++)});
      }
      extents.push_back(extent);
    }
    return Reshape(graph, value, extents);
  };
  graph.Result("r", grouped(grouped(data, joined), apart));
  return Rewrites(graph.Build());
}

TEST(JoinedTransposesTest, WhatDoesNotComeApartStays) {
  EXPECT_TRUE(IsSplit({2, 1, 1}, {1, 1, 1, 1}, false));
  EXPECT_FALSE(IsSplit({1, 1, 2}, {1, 1, 2}, false));    // as many axes as before
  EXPECT_FALSE(IsSplit({2, 1, 1}, {2, 2}, false));       // joins more of them
  EXPECT_FALSE(IsSplit({2, 2}, {1, 2, 1}, false));       // joins others
  EXPECT_FALSE(IsSplit({2, 1, 1}, {1, 1, 1, 1}, true));  // folded as a constant anyway
}

// Inference refuses an order with an axis that there is not, if it knows how many there are. Here
// it does not: the Reshape's list is the shape of y, of unknown rank in the file.
TEST(JoinedTransposesTest, AnOrderWithAnAxisThatThereIsNotStays) {
  const auto rewrites = [](const std::vector<int64_t>& order) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {2, 3, 5, 4});
    const Value y = graph.Parameter("y", DType::kF32, {});
    const Value joined =
        graph.Add("Reshape", {x, graph.Add("ShapeOf", {y})}, {{"special_zero", false}});
    const Value turned = graph.Add("Transpose", {joined, graph.Ints(order)});
    graph.Result("r", Reshape(graph, turned, {graph.Ints({2, 3, 4, 5})}));
    Graph built = graph.Build();
    built.node(y.node).outputs[0].shape = PartialShape();
    std::vector<ValueExtents> parameters(2);
    parameters[1].shape = {ops::Extent{6, {}}, ops::Extent{5, {}}, ops::Extent{4, {}}};
    return Rewrites(std::move(built), parameters);
  };
  EXPECT_TRUE(rewrites({0, 2, 1}));
  EXPECT_FALSE(rewrites({0, 2, int64_t{1} << 40}));
  EXPECT_FALSE(rewrites({0, 2, -(int64_t{1} << 40)}));
}

// Apart in another order than they were joined in: the same numbers, whatever is folded.
TEST(JoinedTransposesTest, OtherOrders) {
  std::mt19937 random(1);
  int num_folded = 0;
  for (int round = 0; round < 300; ++round) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {-1, 2, -1, 6});
    std::vector<Value> extents = {Extent(graph, x, 0), graph.Ints({2}), Extent(graph, x, 2),
                                  graph.Ints({6})};
    const size_t at = random() % 3;  // where two axes are joined
    std::vector<Value> joined = extents;
    joined[at] = graph.Add("Multiply", {joined[at], joined[at + 1]});
    joined.erase(joined.begin() + static_cast<ptrdiff_t>(at) + 1);
    std::vector<int64_t> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    const Value turned = graph.Add("Transpose", {Reshape(graph, x, joined), graph.Ints(order)});
    // Mostly the axes themselves, each where it went; else any order of them.
    std::vector<Value> apart;
    for (const int64_t axis : order) {
      const auto first = static_cast<size_t>(axis) + (static_cast<size_t>(axis) > at ? 1 : 0);
      apart.push_back(extents[first]);
      if (first == at) {
        apart.push_back(extents[at + 1]);
      }
    }
    if (round % 3 == 0) {
      std::shuffle(apart.begin(), apart.end(), random);
    }
    graph.Result("r", Reshape(graph, turned, apart));
    const Graph built = graph.Build();
    const Graph folded = Folded(built);
    num_folded += Count(folded, "ShapeOf") == 0 ? 1 : 0;
    ExpectSame(built, folded, {3, 2, 5, 6});
    ExpectSame(built, folded, {2, 2, 1, 6});
    ExpectSame(built, folded, {6, 2, 2, 6});
  }
  EXPECT_GT(num_folded, 100);
}

}  // namespace
}  // namespace beamwright::ops
