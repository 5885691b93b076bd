// Runs that another thread interrupts: loops, branches, and steps, which can then be made again.
#include "ops/base/interruption.h"

#include <gtest/gtest.h>

#include <thread>

#include "ops/loop/operators.h"
#include "tests/ops/loop/run_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Last;

// A loop of `iterations` iterations with a product in its body, inside another one if `nested`.
GraphBuilder::Value HeavyLoop(GraphBuilder& graph, GraphBuilder::Value x, GraphBuilder::Value trips,
                              bool nested) {
  GraphBuilder body;
  const auto inside = body.Parameter("x", DType::kF32, {4, 64});
  const auto weight = body.Constant(Tensor::Zeros(DType::kF32, {64, 64}));
  body.Result("y", nested ? HeavyLoop(body, inside, body.Int(int64_t{1} << 40), false)
                          : body.Add("MatMul", {inside, weight}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0)};
  loop.trip_count_input = 1;
  loop.outputs = {Last(0, 0)};
  return graph.Loop({x, trips}, std::move(loop), 1);
}

class Interrupted : public ::testing::TestWithParam<bool> {};

TEST_P(Interrupted, ALoopOfManyIterations) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {4, 64});
  const auto trips = graph.Parameter("trips", DType::kI64, {});
  graph.Result("y", HeavyLoop(graph, x, trips, GetParam()));
  const auto model = Model::Compile(graph.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<Tensor> inputs = {Tensor::Zeros(DType::kF32, {4, 64}),
                                      Tensor::Scalar(int64_t{1} << 40)};
  Interruption interruption;
  std::vector<Tensor> outputs;
  absl::Status status;
  std::thread runs([&] {
    ExecutionContext context;
    context.interruption = &interruption;
    status = (*model)->Run(context, inputs, outputs);
  });
  interruption.Raise();  // at any moment of the run
  runs.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

INSTANTIATE_TEST_SUITE_P(Loops, Interrupted, ::testing::Bool());

TEST(InterruptionTest, IsRaisedWhileItsParentIs) {
  Interruption outer;
  Interruption inner(&outer);
  ExecutionContext context;
  EXPECT_TRUE(context.CheckInterruption().ok());
  context.interruption = &inner;
  EXPECT_FALSE(inner.raised());
  outer.Raise();
  EXPECT_TRUE(inner.raised());
  EXPECT_FALSE(inner.raised_here());
  EXPECT_TRUE(absl::IsCancelled(context.CheckInterruption()));
  outer.Reset();
  EXPECT_TRUE(context.CheckInterruption().ok());
}

}  // namespace
}  // namespace beamwright::ops
