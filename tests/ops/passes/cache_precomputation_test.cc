// What a step computes of a cache that grows, kept in the place of the cache: the same bits.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

Tensor Numbers(const Shape& shape, float first) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = first + 0.37f * static_cast<float>(i);
  }
  return Tensor::Of<float>(shape, values);
}

struct Step {
  Graph graph;
  GraphInfo info;
  CarriedNodes cache;
};

// A query [rows, 1, 3] over keys [rows, places, 3], transposed and scaled in each step.
Step Scores(bool is_read_twice) {
  GraphBuilder graph;
  const Value cache = graph.Parameter("cache", DType::kF32, {-1, -1, 3});
  const Value query = graph.Parameter("query", DType::kF32, {-1, 1, 3});
  const Value keys = graph.Add("Concat", {cache, query}, {{"axis", int64_t{-2}}});
  const Value turned = graph.Add("Transpose", {keys, graph.Ints({0, 2, 1})}, {}, "turned");
  const Value scaled = graph.Add("Multiply", {turned, graph.Constant(Tensor::Scalar(0.3f))});
  graph.Result("keys", keys);
  graph.Result("scores", graph.Add("MatMul", {query, scaled}));
  if (is_read_twice) {
    graph.Result("sum", graph.Add("ReduceSum", {keys, graph.Ints({1})}, {{"keep_dims", false}}));
  }
  Step step;
  step.graph = graph.Build();
  step.info = *InferGraph(step.graph, Operators());
  step.cache = {step.graph.parameters[0], step.graph.results[0]};
  return step;
}

absl::StatusOr<bool> Keep(Step& step) {
  PassContext context{Operators()};
  context.states = {step.cache};
  return KeepComputed(step.graph, step.info, context);
}

TEST(ComputedCaches, HoldWhatEachStepComputesOfThem) {
  Step step = Scores(false);
  const Graph before = step.graph;
  int passes = 0;
  while (true) {
    const absl::StatusOr<bool> changed = Keep(step);
    ASSERT_TRUE(changed.ok()) << changed.status();
    if (!*changed) {
      break;
    }
    ++passes;
    step.cache = {step.graph.parameters[0], step.graph.results[0]};
  }
  EXPECT_EQ(passes, 2);
  EXPECT_EQ(step.graph.node(step.cache.parameter).outputs[0].shape, PartialShape({-1, 3, -1}));
  Tensor cache(DType::kF32, {2, 0, 3});
  Tensor kept(DType::kF32, {2, 3, 0});
  for (int i = 0; i < 4; ++i) {
    const Tensor query = Numbers({2, 1, 3}, static_cast<float>(i) - 1.5f);
    const auto expected = RunAsItIs(before, {cache, query});
    const auto got = RunAsItIs(step.graph, {kept, query});
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(got.ok()) << got.status();
    testing_support::ExpectSameBits({(*got)[1]}, {(*expected)[1]});
    cache = (*expected)[0];
    kept = (*got)[0];
  }
}

TEST(ComputedCaches, WhatIsReadInAnotherWayStays) {
  Step step = Scores(true);
  EXPECT_FALSE(Keep(step).value());
}

}  // namespace
}  // namespace beamwright::ops
