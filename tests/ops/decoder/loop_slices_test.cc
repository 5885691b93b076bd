// Loops that count to the target's length and pick their step by the count: stepped like loops that
// slice, and the same numbers; refused where the count, the condition or the pick is another.
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/decoder/target_loop.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Last;
using Value = GraphBuilder::Value;

constexpr int64_t kWidth = 2;

struct Variant {
  // The trip count, from x [rows, time, width] and memory [rows, length, width].
  std::function<Value(GraphBuilder&, Value x, Value memory)> count;
  // What an iteration reads, inside the body.
  std::function<Value(GraphBuilder&, Value x, Value iteration)> pick;
  // The body's condition.
  std::function<Value(GraphBuilder&, Value state)> go_on;
};

Value Extent(GraphBuilder& graph, Value of, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {of}), graph.Int(axis), graph.Int(0)});
}

Value PickStep(GraphBuilder& body, Value x, Value iteration) {
  return body.Add("Gather", {x, iteration, body.Int(1)});
}

Variant Plain() {
  return {[](GraphBuilder& graph, Value x, Value) { return Extent(graph, x, 1); }, PickStep,
          [](GraphBuilder& body, Value) { return body.Constant(Tensor::Scalar(true)); }};
}

// tokens, memory, first state -> state + x of each step, joined.
Graph Decoder(const Variant& variant) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value memory = graph.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  const Value start = graph.Parameter("h", DType::kF32, {-1, kWidth});
  const Tensor table = Tensor::Of<float>({3, kWidth}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Value x = graph.Add("Gather", {graph.Constant(table), tokens, graph.Int(0)});
  GraphBuilder body;
  const Value iteration = body.Parameter("i", DType::kI64, {});
  const Value h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const Value all = body.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value next = body.Add("Add", {h, variant.pick(body, all, iteration)});
  body.Result("h_next", next);
  body.Result("go_on", variant.go_on(body, h));
  Loop loop;
  loop.body = body.Build();
  LoopInput number;
  number.kind = LoopInput::Kind::kIteration;
  number.body_parameter = 0;
  loop.inputs = {number, Carried(2, 1, 0), Invariant(3, 2)};
  LoopOutput stacked = Last(0, 0);
  stacked.kind = LoopOutput::Kind::kStacked;
  stacked.axis = 1;
  loop.outputs = {stacked};
  loop.trip_count_input = 0;
  loop.condition_input = 1;
  loop.condition_result = 1;
  loop.states_may_change_shape = true;
  const Value yes = graph.Constant(Tensor::Scalar(true));
  const Value joined =
      graph.Loop({variant.count(graph, x, memory), yes, start, x}, std::move(loop), 1);
  graph.Result("logits", joined);
  return graph.Build();
}

absl::StatusOr<Graph> Join(Graph graph) {
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  if (!info.ok()) {
    return info.status();
  }
  const absl::Status folded = FoldShapes(graph, *info, {Operators(), {0, 0, 0}}).status();
  if (!folded.ok()) {
    return folded;
  }
  return JoinTargetLoop(graph, *info, Operators(), graph.parameters[0], 1, {graph.results[0]});
}

std::string Refusal(const Variant& variant) {
  return std::string(Join(Decoder(variant)).status().message());
}

void ExpectSteppedAlike(const Graph& graph) {
  const absl::StatusOr<Graph> joined = Join(graph);
  ASSERT_TRUE(joined.ok()) << joined.status();
  for (const Node& node : joined->nodes) {
    if (node.loop != nullptr) {
      EXPECT_EQ(node.loop->trip_count_input, -1);
      EXPECT_EQ(node.loop->inputs[0].kind, LoopInput::Kind::kSliced);
    }
  }
  const std::vector<Tensor> inputs = {
      Tensor::Of<int64_t>({2, 3}, std::vector<int64_t>{0, 1, 2, 2, 2, 0}),
      Tensor::Of<float>({2, 1, kWidth}, std::vector<float>(4, 0)),
      Tensor::Of<float>({2, kWidth}, std::vector<float>{1, 0, 0, 1})};
  std::vector<Tensor> expected;
  std::vector<Tensor> got;
  ASSERT_TRUE((*Model::Compile(graph))->Run(ExecutionContext(), inputs, expected).ok());
  ASSERT_TRUE((*Model::Compile(*joined))->Run(ExecutionContext(), inputs, got).ok());
  EXPECT_EQ(got[0].shape(), Shape({2, 3, kWidth}));
  EXPECT_THAT(got[0].span<float>(), ::testing::ElementsAreArray(expected[0].span<float>()));
}

void ExpectStepped(const Variant& variant) { ExpectSteppedAlike(Decoder(variant)); }

TEST(LoopSlicesTest, CountingLoopsAreStepped) {
  ExpectStepped(Plain());
  Variant from_end = Plain();
  from_end.pick = [](GraphBuilder& body, Value x, Value iteration) {
    return body.Add("Gather", {x, iteration, body.Int(-2)});
  };
  ExpectStepped(from_end);
  // x[:, t]
  Variant behind_slice = Plain();
  behind_slice.pick = [](GraphBuilder& body, Value x, Value iteration) {
    const Value all = body.Ints({std::numeric_limits<int64_t>::max()});
    const Value slice = body.Add("Slice", {x, body.Ints({0}), all, body.Ints({1}), body.Ints({0})});
    return PickStep(body, slice, iteration);
  };
  ExpectStepped(behind_slice);
}

// A table of positions, and a number that is computed from the step's.
TEST(LoopSlicesTest, WhatElseReadsTheNumberOfTheStepGoesOnReadingIt) {
  Variant positions = Plain();
  positions.pick = [](GraphBuilder& body, Value x, Value iteration) {
    const Tensor table = Tensor::Of<float>({4, kWidth}, std::vector<float>{9, 8, 7, 6, 5, 4, 3, 2});
    const Value position = body.Add("Gather", {body.Constant(table), iteration, body.Int(0)});
    const Value number =
        body.Add("Convert", {iteration}, {{"destination_type", std::string("f32")}});
    const Value scaled = body.Add("Multiply", {position, number});
    return body.Add("Add", {PickStep(body, x, iteration), scaled});
  };
  ExpectStepped(positions);
}

// What a `while` is to be like: its state that counts.
struct While {
  DType type = DType::kI32;
  int64_t start = 0;
  int64_t stride = 1;
  int64_t trips = std::numeric_limits<int64_t>::max();
  bool counts_next = true;  // the condition reads the next number, not the one of this iteration
  bool counts_memory = false;
};

Value Typed(GraphBuilder& graph, Value value, DType type) {
  return graph.Add("Convert", {value}, {{"destination_type", std::string(Name(type))}});
}

// The decoder above as Keras and TensorFlow write its loop: `while (t < n) { .. t += 1; }`,
// compared as floats, weights being states that nothing changes.
Graph WhileDecoder(const While& variant) {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kI64, {-1, -1});
  const Value memory = graph.Parameter("memory", DType::kF32, {-1, -1, kWidth});
  const Value start = graph.Parameter("h", DType::kF32, {-1, kWidth});
  const Tensor table = Tensor::Of<float>({3, kWidth}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Value x = graph.Add("Gather", {graph.Constant(table), tokens, graph.Int(0)});
  const Value count =
      Typed(graph, Extent(graph, variant.counts_memory ? memory : x, 1), DType::kI32);
  GraphBuilder body;
  body.Parameter("i", DType::kI64, {});
  const Value t = body.Parameter("t", variant.type, {});
  const Value h = body.Parameter("h", DType::kF32, {-1, kWidth});
  const Value all = body.Parameter("x", DType::kF32, {-1, -1, kWidth});
  const Value n = body.Parameter("n", DType::kI32, {});
  const Value weight = body.Parameter("weight", DType::kF32, {kWidth});
  const Value next_t = body.Add("Add", {t, Typed(body, body.Int(variant.stride), variant.type)});
  const Value scaled = body.Add("Multiply", {h, weight});
  const Value next = body.Add("Add", {scaled, PickStep(body, all, t)});
  const Value first = body.Add("Less", {Typed(body, variant.counts_next ? next_t : t, DType::kF32),
                                        Typed(body, n, DType::kF32)});
  body.Result("h_next", next);
  body.Result("go_on", body.Add("LogicalAnd", {first, body.Constant(Tensor::Scalar(true))}));
  body.Result("t_next", next_t);
  body.Result("weight_next", weight);
  Loop loop;
  loop.body = body.Build();
  LoopInput number;
  number.kind = LoopInput::Kind::kIteration;
  number.body_parameter = 0;
  loop.inputs = {number,          Carried(2, 1, 2), Carried(3, 2, 0),
                 Invariant(4, 3), Invariant(5, 4),  Carried(6, 5, 3)};
  LoopOutput stacked = Last(0, 0);
  stacked.kind = LoopOutput::Kind::kStacked;
  stacked.axis = 1;
  loop.outputs = {stacked};
  loop.trip_count_input = 0;
  loop.condition_input = 1;
  loop.condition_result = 1;
  loop.states_may_change_shape = true;
  const Value zero = graph.Constant(Tensor::Scalar(0.0f));
  const Value begins = graph.Add("Less", {zero, Typed(graph, count, DType::kF32)});
  const Value first_t = Typed(graph, graph.Int(variant.start), variant.type);
  const Tensor weights = Tensor::Of<float>({kWidth}, std::vector<float>{0.5f, -2});
  graph.Result("logits", graph.Loop({graph.Int(variant.trips), begins, first_t, start, x, count,
                                     graph.Constant(weights)},
                                    std::move(loop), 1));
  return graph.Build();
}

TEST(LoopSlicesTest, AWhileThatCountsTheStepsIsStepped) {
  ExpectSteppedAlike(WhileDecoder({}));
  ExpectSteppedAlike(WhileDecoder({.type = DType::kI64}));
}

TEST(LoopSlicesTest, OtherWhilesAreRefused) {
  const While variants[] = {
      {.start = 1}, {.stride = 2}, {.trips = 2}, {.counts_next = false}, {.counts_memory = true}};
  for (const While& variant : variants) {
    EXPECT_THAT(Join(WhileDecoder(variant)).status().message(),
                HasSubstr("once for each target token"));
  }
}

// Shape(x, start, end) of opset 15, and the list it gives as a scalar.
Value PartOfShape(GraphBuilder& graph, Value of, int64_t start, int64_t end, int64_t step = 1) {
  const Value part = graph.Add("Slice", {graph.Add("ShapeOf", {of}), graph.Ints({start}),
                                         graph.Ints({end}), graph.Ints({step})});
  return graph.Add("Squeeze", {part});
}

TEST(LoopSlicesTest, PartsOfAShapeCountToo) {
  for (const auto& [start, end] : {std::pair<int64_t, int64_t>(1, 2), {-2, 2}, {-2, -1}}) {
    Variant variant = Plain();
    variant.count = [start = start, end = end](GraphBuilder& graph, Value x, Value) {
      return PartOfShape(graph, x, start, end);
    };
    ExpectStepped(variant);
  }
  Variant backwards = Plain();
  backwards.count = [](GraphBuilder& graph, Value x, Value) {
    return PartOfShape(graph, x, 1, 0, -1);
  };
  ExpectStepped(backwards);
  Variant rows = Plain();
  rows.count = [](GraphBuilder& graph, Value x, Value) { return PartOfShape(graph, x, 0, 1); };
  EXPECT_THAT(Refusal(rows), HasSubstr("once for each target token"));
  // Two extents, of which a product is taken.
  Variant both = Plain();
  both.count = [](GraphBuilder& graph, Value x, Value) {
    const Value part = graph.Add(
        "Slice", {graph.Add("ShapeOf", {x}), graph.Ints({1}), graph.Ints({3}), graph.Ints({1})});
    return graph.Add("ReduceProd", {part, graph.Ints({0})}, {{"keep_dims", false}});
  };
  EXPECT_THAT(Refusal(both), HasSubstr("once for each target token"));
}

TEST(LoopSlicesTest, OtherCountsAreRefused) {
  const std::string count = "once for each target token";
  Variant memory = Plain();
  memory.count = [](GraphBuilder& graph, Value, Value m) { return Extent(graph, m, 1); };
  EXPECT_THAT(Refusal(memory), HasSubstr(count));
  Variant rows = Plain();
  rows.count = [](GraphBuilder& graph, Value x, Value) { return Extent(graph, x, 0); };
  EXPECT_THAT(Refusal(rows), HasSubstr(count));
  Variant less = Plain();
  less.count = [](GraphBuilder& graph, Value x, Value) {
    return graph.Add("Subtract", {Extent(graph, x, 1), graph.Int(1)});
  };
  EXPECT_THAT(Refusal(less), HasSubstr(count));
}

TEST(LoopSlicesTest, LoopsThatMayEndEarlierAreRefused) {
  Variant variant = Plain();
  variant.go_on = [](GraphBuilder& body, Value state) {
    const Value sum = body.Add("ReduceSum", {state, body.Ints({0, 1})});
    return body.Add("Less", {sum, body.Constant(Tensor::Scalar(100.0f))});
  };
  EXPECT_THAT(Refusal(variant), HasSubstr("once for each target token"));
  variant.go_on = [](GraphBuilder& body, Value) { return body.Constant(Tensor::Scalar(false)); };
  EXPECT_THAT(Refusal(variant), HasSubstr("once for each target token"));
}

TEST(LoopSlicesTest, OtherPicksAreRefused) {
  Variant next = Plain();
  next.pick = [](GraphBuilder& body, Value x, Value iteration) {
    return PickStep(body, x, body.Add("Maximum", {iteration, body.Int(1)}));
  };
  EXPECT_THAT(Refusal(next), HasSubstr("once for each target token"));
  Variant rows = Plain();
  rows.pick = [](GraphBuilder& body, Value x, Value iteration) {
    const Value row = body.Add("Gather", {x, iteration, body.Int(0)});
    return body.Add("ReduceMean", {row, body.Ints({0})}, {{"keep_dims", false}});
  };
  EXPECT_THAT(Refusal(rows), HasSubstr("once for each target token"));
  Variant part = Plain();
  part.pick = [](GraphBuilder& body, Value x, Value iteration) {
    const Value slice =
        body.Add("Slice", {x, body.Ints({1}), body.Ints({std::numeric_limits<int64_t>::max()}),
                           body.Ints({1}), body.Ints({0})});
    return PickStep(body, slice, iteration);
  };
  EXPECT_THAT(Refusal(part), HasSubstr("once for each target token"));
}

}  // namespace
}  // namespace beamwright::ops
