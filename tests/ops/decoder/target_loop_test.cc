// Decoders as exports write them, made into one loop: the same numbers as the graph as it was, run
// over the whole target, and a body that is a step.
#include "ops/decoder/target_loop.h"

#include <functional>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Joined;
using testing_support::Last;
using testing_support::Sliced;
using Value = GraphBuilder::Value;

constexpr int64_t kVocabulary = 7;
constexpr int64_t kWidth = 4;

std::mt19937& Random() {
  static auto* const random = new std::mt19937(1);
  return *random;
}

Tensor RandomFloats(const Shape& shape) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (float& element : values) {
    element = value(Random());
  }
  return Tensor::Of<float>(shape, values);
}

// h = tanh(x W + h R): slices of `x` on `axis`, states joined on the same axis.
Value Recurrent(GraphBuilder& outer, Value x, Value h0, int64_t axis) {
  GraphBuilder body;
  const Value x_part =
      body.Parameter("x", DType::kF32, axis == 0 ? Shape{1, -1, kWidth} : Shape{-1, 1, kWidth});
  const Value h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const Value row = body.Add("Squeeze", {x_part, body.Ints({axis})});
  const Value product = body.Add("MatMul", {row, body.Constant(RandomFloats({kWidth, kWidth}))});
  const Value recurrent = body.Add("MatMul", {h, body.Constant(RandomFloats({kWidth, kWidth}))});
  const Value next = body.Add("Tanh", {body.Add("Add", {product, recurrent})});
  body.Result("h_part", body.Add("Unsqueeze", {next, body.Ints({axis})}));
  body.Result("h_next", next);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, axis), Carried(1, 1, 1)};
  loop.outputs = {Joined(0, 0, axis)};
  return outer.Loop({x, h0}, std::move(loop), 1);
}

Value Embedding(GraphBuilder& graph, Value tokens) {
  return graph.Add("Gather",
                   {graph.Constant(RandomFloats({kVocabulary, kWidth})), tokens, graph.Int(0)});
}

Value Projection(GraphBuilder& graph, Value x) {
  const Value product =
      graph.Add("MatMul", {x, graph.Constant(RandomFloats({kWidth, kVocabulary}))});
  return graph.Add("Add", {product, graph.Constant(RandomFloats({kVocabulary}))});
}

// Attention of all time steps at once, after the loop: [B, T, H] over memory [B, S, H].
Value Attention(GraphBuilder& graph, Value queries, Value memory) {
  const Value scores = graph.Add("MatMul", {queries, memory}, {{"transpose_b", true}});
  const Value weights = graph.Add("SoftMax", {scores}, {{"axis", int64_t{2}}});
  return graph.Add("Add", {queries, graph.Add("MatMul", {weights, memory})});
}

absl::StatusOr<Graph> Join(Graph graph, int time_axis) {
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  if (!info.ok()) {
    return info.status();
  }
  return JoinTargetLoop(graph, *info, Operators(), graph.parameters[0], time_axis,
                        {graph.results[0]});
}

int CountLoops(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& node) { return node.op == "Loop"; }));
}

// Runs both forms on random tokens; inputs other than the tokens are given.
void ExpectSame(const Graph& graph, int time_axis, const std::vector<Tensor>& others) {
  absl::StatusOr<Graph> joined = Join(graph, time_axis);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(CountLoops(*joined), 1);
  const auto whole = Model::Compile(graph);
  const auto stepped = Model::Compile(*joined);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(stepped.ok()) << stepped.status();
  constexpr int64_t kRows = 2;
  constexpr int64_t kTime = 5;
  std::vector<int64_t> ids(kRows * kTime);
  for (int64_t& id : ids) {
    id = static_cast<int64_t>(Random()() % kVocabulary);
  }
  const Shape shape = time_axis == 0 ? Shape{kTime, kRows} : Shape{kRows, kTime};
  std::vector<Tensor> inputs = {Tensor::Of<int64_t>(shape, ids)};
  inputs.insert(inputs.end(), others.begin(), others.end());
  std::vector<Tensor> expected;
  std::vector<Tensor> got;
  ASSERT_TRUE((*whole)->Run(ExecutionContext(), inputs, expected).ok());
  const absl::Status ran = (*stepped)->Run(ExecutionContext(), inputs, got);
  ASSERT_TRUE(ran.ok()) << ran;
  ASSERT_EQ(expected[0].shape(), got[0].shape());
  for (int64_t i = 0; i < expected[0].num_elements(); ++i) {
    ASSERT_NEAR(expected[0].data<float>()[i], got[0].data<float>()[i], 1e-6) << i;
  }
}

TEST(TargetLoopTest, EmbeddingBeforeAndProjectionAfter) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value h0 = graph.Parameter("h0", DType::kF32, {-1, kWidth});
  const Value states = Recurrent(graph, Embedding(graph, tokens), h0, 1);
  graph.Result("logits", Projection(graph, states));
  ExpectSame(graph.Build(), 1, {RandomFloats({2, kWidth})});
}

TEST(TargetLoopTest, TwoLayersTimeFirstWithTransposes) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value h0 = graph.Parameter("h0", DType::kF32, {-1, kWidth});
  const Value h1 = graph.Parameter("h1", DType::kF32, {-1, kWidth});
  const Value order = graph.Ints({1, 0, 2});
  const Value first = graph.Add("Transpose", {Embedding(graph, tokens), order});
  const Value lower = Recurrent(graph, first, h0, 0);
  const Value upper = Recurrent(graph, graph.Add("Tanh", {lower}), h1, 0);
  const Value back = graph.Add("Transpose", {graph.Add("Add", {lower, upper}), order});
  graph.Result("logits", Projection(graph, back));
  ExpectSame(graph.Build(), 1, {RandomFloats({2, kWidth}), RandomFloats({2, kWidth})});
}

TEST(TargetLoopTest, AttentionAfterTheLoopReadsTheMemoryOncePerRequest) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value h0 = graph.Parameter("h0", DType::kF32, {-1, kWidth});
  const Value memory = graph.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  const Value keys = graph.Add("MatMul", {memory, graph.Constant(RandomFloats({kWidth, kWidth}))});
  const Value states = Recurrent(graph, Embedding(graph, tokens), h0, 1);
  graph.Result("logits", Projection(graph, Attention(graph, states, keys)));
  Graph built = graph.Build();
  const absl::StatusOr<Graph> joined = Join(built, 1);
  ASSERT_TRUE(joined.ok()) << joined.status();
  // The keys do not depend on the target: their product stays outside.
  const auto is_keys = [&](const Node& node) { return node.op == "MatMul"; };
  EXPECT_EQ(std::count_if(joined->nodes.begin(), joined->nodes.end(), is_keys), 1);
  ExpectSame(built, 1, {RandomFloats({2, kWidth}), RandomFloats({2, 6, kWidth})});
}

TEST(TargetLoopTest, InitialStatesMadeToTheTargetsMeasuresStayOutside) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value shape = graph.Add("ShapeOf", {tokens});
  const Value rows = graph.Add("Gather", {shape, graph.Ints({0}), graph.Int(0)});
  const Value measures = graph.Add("Concat", {rows, graph.Ints({kWidth})}, {{"axis", int64_t{0}}});
  const Value zeros = graph.Add("Broadcast", {graph.Constant(Tensor::Scalar(0.0F)), measures});
  const Value states = Recurrent(graph, Embedding(graph, tokens), zeros, 1);
  graph.Result("logits", Projection(graph, states));
  ExpectSame(graph.Build(), 1, {});
}

TEST(TargetLoopTest, WhatLooksAtOtherStepsIsNamed) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value h0 = graph.Parameter("h0", DType::kF32, {-1, kWidth});
  const Value states = Recurrent(graph, Embedding(graph, tokens), h0, 1);
  graph.Result("logits", Projection(graph, graph.Add("SoftMax", {states}, {{"axis", int64_t{1}}},
                                                     "over time")));
  const absl::Status status = Join(graph.Build(), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SoftMax 'over time'"));
}

// What joining says of a decoder whose loop was changed.
absl::Status JoinChanged(const std::function<void(Loop&)>& change) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value h0 = graph.Parameter("h0", DType::kF32, {-1, kWidth});
  graph.Result("logits", Projection(graph, Recurrent(graph, Embedding(graph, tokens), h0, 1)));
  Graph built = graph.Build();
  for (Node& node : built.nodes) {
    if (node.op == "Loop") {
      auto loop = std::make_shared<Loop>(*node.loop);
      change(*loop);
      node.loop = loop;
    }
  }
  return Join(built, 1).status();
}

// OpenVINO's loops may count axes from the end.
TEST(TargetLoopTest, ALoopThatCountsItsAxesFromTheEndIsTaken) {
  const absl::Status status = JoinChanged([](Loop& loop) {
    loop.inputs[0].axis = -2;
    loop.outputs[0].axis = -2;
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TargetLoopTest, ALoopThatDoesNotTakeTheTargetStepByStepForwardsIsRefused) {
  ASSERT_TRUE(JoinChanged([](Loop&) {}).ok());
  const std::vector<std::function<void(LoopInput&)>> changes = {
      [](LoopInput& slice) {  // backwards
        slice.start = -1;
        slice.end = 0;
        slice.stride = -1;
      },
      [](LoopInput& slice) { slice.stride = 2; },
      [](LoopInput& slice) { slice.start = 1; },
      [](LoopInput& slice) { slice.end = 2; },
  };
  for (const auto& change : changes) {
    const absl::Status status = JoinChanged([&](Loop& loop) { change(loop.inputs[0]); });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Loop 'loop'"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("forwards, step by step"));
  }
}

// Two tokens at a time, whose sum is a step's input.
TEST(TargetLoopTest, ALoopThatTakesTheTargetByTwosIsRefused) {
  const absl::Status status = JoinChanged([](Loop& loop) {
    loop.inputs[0].part_size = 2;
    loop.body.node(loop.body.parameters[0]).outputs[0].shape = PartialShape({-1, 2, kWidth});
    for (Node& node : loop.body.nodes) {
      if (node.op == "Squeeze") {
        node.op = "ReduceSum";
        node.attributes.Set("keep_dims", false);
      }
    }
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("forwards, step by step"));
}

TEST(TargetLoopTest, ALoopThatJoinsItsStepsBackwardsIsRefused) {
  const absl::Status status = JoinChanged([](Loop& loop) { loop.outputs[0].reversed = true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace beamwright::ops
