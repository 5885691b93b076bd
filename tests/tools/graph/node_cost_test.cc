// What nodes cost, against counts made by hand.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tools/graph/show.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

struct Case {
  NodeCost cost;
  std::string text;
};

template <typename Build>
Case Cost(Build build) {
  GraphBuilder builder;
  const Value value = build(builder);
  builder.Result("out", value);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  const NodeCost cost = CostOf(graph, *info, value.node);
  return {cost, ToText(cost)};
}

Value Weight(GraphBuilder& graph, Shape shape) {
  return graph.Constant(Tensor::Zeros(DType::kF32, std::move(shape)));
}

TEST(NodeCost, AProductReadsItsWeightOnceAndMultipliesEachRow) {
  const Case fixed = Cost([](GraphBuilder& graph) {
    return graph.Add("MatMul", {graph.Parameter("a", DType::kF32, {3, 5}), Weight(graph, {5, 7})});
  });
  EXPECT_EQ(fixed.cost.multiply_adds, 3 * 5 * 7);
  EXPECT_EQ(fixed.cost.weight_bytes, 4 * 5 * 7);
  EXPECT_EQ(fixed.cost.activation_bytes, 4 * (3 * 5 + 3 * 7));
  EXPECT_FALSE(fixed.cost.open);
  EXPECT_EQ(fixed.text, "105 multiply-adds, 140 bytes of weights, 144 bytes of activations");
  const Case open = Cost([](GraphBuilder& graph) {
    return graph.Add("MatMul", {graph.Parameter("a", DType::kF32, {5, -1}), Weight(graph, {5, 7})},
                     {{"transpose_a", true}});
  });
  EXPECT_EQ(open.cost.multiply_adds, 5 * 7) << "of one row";
  EXPECT_TRUE(open.cost.open);
}

TEST(NodeCost, ACellMultipliesWithBothItsWeights) {
  const Case cell = Cost([](GraphBuilder& graph) {
    const Value h = graph.Parameter("h", DType::kF32, {-1, 4});
    return graph.Add("GRUCell",
                     {graph.Parameter("x", DType::kF32, {-1, 6}), h, Weight(graph, {12, 6}),
                      Weight(graph, {12, 4}), Weight(graph, {12})},
                     {{"hidden_size", int64_t{4}}});
  });
  EXPECT_EQ(cell.cost.multiply_adds, 12 * 6 + 12 * 4);
  EXPECT_EQ(cell.cost.weight_bytes, 4 * (12 * 6 + 12 * 4 + 12));
  EXPECT_EQ(cell.cost.activation_bytes, 4 * (6 + 4 + 4));
}

TEST(NodeCost, OfATableOnlyTheRowsThatAreTakenAreRead) {
  const Case gather = Cost([](GraphBuilder& graph) {
    return graph.Add(
        "Gather", {Weight(graph, {1000, 8}), graph.Parameter("i", DType::kI64, {2}), graph.Int(0)});
  });
  EXPECT_EQ(gather.cost.multiply_adds, 0);
  EXPECT_EQ(gather.cost.activation_bytes, 2 * 8 + 4 * 2 * 8);
  EXPECT_EQ(gather.cost.weight_bytes, 8);  // the axis
}

TEST(NodeCost, WhatIsKnownAtLoadCostsNothing) {
  const Case constant = Cost([](GraphBuilder& graph) {
    return graph.Add("MatMul", {Weight(graph, {3, 5}), Weight(graph, {5, 7})});
  });
  EXPECT_EQ(constant.text, "");
  const Case huge = Cost([](GraphBuilder& graph) {
    const int64_t large = int64_t{1} << 31;
    return graph.Add("Add", {graph.Parameter("a", DType::kF32, {large, 1}),
                             graph.Parameter("b", DType::kF32, {1, 1 << 16})});
  });
  EXPECT_GT(huge.cost.activation_bytes, int64_t{1} << 48);
}

}  // namespace
}  // namespace beamwright::ops
