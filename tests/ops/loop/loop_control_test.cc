// How often loops run: trip counts and conditions, known at load or computed, no iteration at all,
// states that change their shape, and what bounds a loop that nothing else bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ops/loop/operators.h"
#include "tests/ops/loop/run_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Iteration;
using testing_support::Joined;
using testing_support::Last;
using testing_support::Sliced;
using testing_support::Stacked;

// total += iteration + 1 while total < limit; outputs: last total, all totals stacked.
Loop Summing(bool with_condition) {
  GraphBuilder body;
  const auto total = body.Parameter("total", DType::kF32, {});
  const auto iteration = body.Parameter("iteration", DType::kI64, {});
  const auto limit = body.Parameter("limit", DType::kF32, {});
  const auto step = body.Add("Convert", {body.Add("Add", {iteration, body.Int(1)})},
                             {{"destination_type", std::string("f32")}});
  const auto next = body.Add("Add", {total, step});
  body.Result("total_out", next);
  body.Result("again", body.Add("Less", {next, limit}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0), Iteration(1), Invariant(1, 2)};
  loop.outputs = {Last(0, 0), Stacked(1, 0)};
  loop.states_may_change_shape = true;
  if (with_condition) {
    loop.condition_result = 1;
  }
  return loop;
}

struct Control {
  std::optional<Tensor> trip_count;
  std::optional<Tensor> condition;
  bool known_at_load = false;
  float limit = 1e9f;
};

absl::StatusOr<std::vector<Tensor>> Sum(const Control& control, bool with_condition) {
  Loop loop = Summing(with_condition);
  GraphBuilder graph;
  std::vector<Tensor> inputs = {Tensor::Scalar(100.0f), Tensor::Scalar(control.limit)};
  std::vector<ValueId> values = {graph.Parameter("total", DType::kF32, {}),
                                 graph.Parameter("limit", DType::kF32, {})};
  const auto add = [&](const std::optional<Tensor>& value, const std::string& name, int& input) {
    if (value.has_value()) {
      input = static_cast<int>(values.size());
      if (control.known_at_load) {
        values.push_back(graph.Constant(*value));
      } else {
        values.push_back(graph.Parameter(name, value->dtype(), value->shape()));
        inputs.push_back(*value);
      }
    }
  };
  add(control.trip_count, "trips", loop.trip_count_input);
  add(control.condition, "condition", loop.condition_input);
  const auto out = graph.Loop(values, std::move(loop), 2);
  graph.Result("last", out);
  graph.Result("all", {out.node, 1});
  return RunGraph(graph.Build(), inputs);
}

void ExpectTotals(const Control& control, bool with_condition, const std::vector<float>& totals) {
  const auto outputs = Sum(control, with_condition);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Floats((*outputs)[0]), ElementsAre(totals.empty() ? 100.0f : totals.back()));
  EXPECT_EQ((*outputs)[1].shape(), (Shape{static_cast<int64_t>(totals.size())}));
  EXPECT_EQ(Floats((*outputs)[1]), totals);
}

TEST(LoopControl, TripCountsAndConditions) {
  const Tensor three = I64({}, {3});
  const Tensor three_i32 = Tensor::Of<int32_t>({1}, std::vector<int32_t>{3});
  const Tensor none = I64({}, {0});
  const Tensor no_bound = I64({1}, {-1});
  for (const bool known : {false, true}) {
    for (const Tensor& count : {three, three_i32}) {
      ExpectTotals({count, {}, known}, false, {101, 103, 106});
      ExpectTotals({count, Bool(true), known}, true, {101, 103, 106});
      // The condition is read after an iteration: the one that makes it false counts.
      ExpectTotals({count, Bool(true), known, 102}, true, {101, 103});
      // A condition to begin with says nothing of later ones.
      ExpectTotals({count, Bool(true), known, 102}, false, {101, 103, 106});
      ExpectTotals({count, Bool(false), known}, true, {});
    }
    ExpectTotals({none, {}, known}, false, {});
    ExpectTotals({none, Bool(true), known}, true, {});
    ExpectTotals({no_bound, Bool(true), known, 106}, true, {101, 103, 106});
    ExpectTotals({{}, Bool(true), known, 106}, true, {101, 103, 106});
    ExpectTotals({{}, {}, known, 0}, true, {101});
    ExpectTotals({{}, {}, known}, false, {101});
  }
}

TEST(LoopControl, WhatNothingBoundsEndsWithAnError) {
  GraphBuilder body;
  body.Result("again", body.Parameter("condition", DType::kBool, {}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0)};
  loop.outputs = {Last(0, 0)};
  loop.condition_result = 0;
  GraphBuilder graph;
  graph.Result("y", graph.Loop({graph.Parameter("condition", DType::kBool, {})}, loop, 1));
  const auto outputs = RunGraph(graph.Build(), {Bool(true)});
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(ErrorOf(outputs), HasSubstr("still holds after 1000000 iterations"));
  EXPECT_THAT(ErrorOf(Sum({I64({}, {-1}), {}, false}, false)), HasSubstr("nothing ends the loop"));
}

TEST(LoopControl, ControlsAreChecked) {
  EXPECT_THAT(ErrorOf(Sum({F32({}, {3})}, false)), HasSubstr("trip count is f32[]"));
  EXPECT_THAT(ErrorOf(Sum({I64({2}, {3, 3})}, false)), HasSubstr("trip count is i64[2]"));
  EXPECT_THAT(ErrorOf(Sum({{}, I64({}, {1})}, true)), HasSubstr("condition is i64[]"));
}

// A trip count may stop before the parts end, not go beyond them.
TEST(LoopControl, TripCountOverSlices) {
  const auto run = [](int64_t trips, bool known) {
    GraphBuilder body;
    body.Result("y", body.Parameter("x", DType::kF32, {-1}));
    Loop loop;
    loop.body = body.Build();
    loop.inputs = {Sliced(0, 0, 0, -1, 0, -1)};
    loop.outputs = {Joined(0, 0, 0)};
    loop.trip_count_input = 1;
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1});
    std::vector<Tensor> inputs = {F32({4}, {1, 2, 3, 4})};
    ValueId count = graph.Int(trips);
    if (!known) {
      count = graph.Parameter("trips", DType::kI64, {});
      inputs.push_back(I64({}, {trips}));
    }
    graph.Result("y", graph.Loop({x, count}, loop, 1));
    return RunGraph(graph.Build(), inputs);
  };
  for (const bool known : {false, true}) {
    EXPECT_THAT(Floats(run(3, known)->at(0)), ElementsAre(4, 3, 2));
    EXPECT_THAT(Floats(run(-1, known)->at(0)), ElementsAre(4, 3, 2, 1));
    EXPECT_THAT(ErrorOf(run(5, known)), HasSubstr("trip count is 5, sliced inputs have 4 parts"));
  }
}

// No iteration: what is not a state has no last value; a joined output needs its other extents,
// which may follow from the inputs of the run.
TEST(LoopControl, OutputsOfNoIteration) {
  const auto run = [](bool last, Shape declared, const std::vector<std::string>& ops) {
    GraphBuilder body;
    const auto state = body.Parameter("state", DType::kF32, declared);
    ValueId value = state;
    for (const std::string& op : ops) {
      value = op == "Reshape"
                  ? body.Add("Reshape", {value, body.Parameter("shape", DType::kI64, {2})},
                             {{"special_zero", false}})
                  : body.Add(op, {value});
    }
    body.Result("other", value);
    body.Result("next", state);
    Loop loop;
    loop.body = body.Build();
    loop.inputs = {Carried(0, 0, 1)};
    if (loop.body.parameters.size() == 2) {
      loop.inputs.push_back(Invariant(2, 1));
    }
    loop.outputs = {last ? Last(0, 0) : Joined(0, 0, 1, false, 2), Last(1, 1)};
    loop.trip_count_input = 1;
    GraphBuilder graph;
    const auto in = graph.Parameter("in", DType::kF32, declared);
    const auto trips = graph.Parameter("trips", DType::kI64, {});
    const auto shape = graph.Parameter("shape", DType::kI64, {2});
    const auto out = graph.Loop({in, trips, shape}, loop, 2);
    graph.Result("other", out);
    graph.Result("next", {out.node, 1});
    return RunGraph(graph.Build(),
                    {F32({3, 2}, {1, 2, 3, 4, 5, 6}), I64({}, {0}), I64({2}, {3, 2})});
  };
  EXPECT_THAT(ErrorOf(run(true, {3, 2}, {"Tanh"})),
              HasSubstr("output 0 has no value: the loop ran no iteration"));
  for (const Shape& declared : {Shape{3, 2}, Shape{-1, 2}, Shape{-1, -1}}) {
    const auto outputs = run(false, declared, {"Tanh"});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].shape(), (Shape{3, 0}));
    EXPECT_THAT(Floats((*outputs)[1]), ElementsAre(1, 2, 3, 4, 5, 6));
  }
  EXPECT_THAT(ErrorOf(run(false, {3, 2}, {"Reshape"})),
              HasSubstr("output 0: the loop ran no iteration, and the shape [?, 0]"));
}

// state = concat(state, x): its extent grows by one in each iteration.
absl::StatusOr<std::vector<Tensor>> Grow(bool may_change, int64_t declared, int64_t trips,
                                         PartialShape* inferred = nullptr) {
  GraphBuilder body;
  const auto state = body.Parameter("state", DType::kF32, {declared, 2});
  const auto size = body.Add("ShapeOf", {state}, {{"output_type", std::string("i64")}});
  body.Result("next", body.Add("Concat", {state, body.Constant(F32({1, 2}, {7, 8}))},
                               {{"axis", int64_t{0}}}));
  body.Result("size", body.Add("Gather", {size, body.Int(0), body.Int(0)}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0)};
  loop.outputs = {Last(0, 0), Stacked(1, 1)};
  loop.trip_count_input = 1;
  loop.states_may_change_shape = may_change;
  GraphBuilder builder;
  const auto in = builder.Parameter("in", DType::kF32, {1, 2});
  const auto out = builder.Loop({in, builder.Int(trips)}, loop, 2);
  builder.Result("last", out);
  builder.Result("sizes", {out.node, 1});
  Graph graph = builder.Build();
  if (inferred != nullptr) {
    Graph copy = graph;
    EXPECT_TRUE(InferGraph(copy, Operators()).ok());
    *inferred = copy.info(out).shape;
  }
  return RunGraph(std::move(graph), {F32({1, 2}, {1, 2})});
}

TEST(LoopControl, StatesMayChangeTheirShape) {
  PartialShape inferred;
  const auto outputs = Grow(true, -1, 3, &inferred);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Floats((*outputs)[0]), ElementsAre(1, 2, 7, 8, 7, 8, 7, 8));
  // What the body computes of its shape was not taken for constant.
  EXPECT_THAT((*outputs)[1].span<int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(inferred.ToString(), "[?, 2]");
  EXPECT_THAT(Floats(Grow(true, -1, 0)->at(0)), ElementsAre(1, 2));
  EXPECT_THAT(ErrorOf(Grow(false, -1, 3)), HasSubstr("the value of its back edge"));
  EXPECT_THAT(ErrorOf(Grow(true, 1, 3)), HasSubstr("is declared [1, 2] but is [2, 2]"));
}

// Loops in loops, each with a growing state: a body is inferred twice, the one inside
// four times and so on, and a file cannot make that take forever.
TEST(LoopControl, InferringGrowthInNestedLoopsIsBounded) {
  const auto infer = [](int depth) {
    Loop inner;
    for (int i = 0; i < depth; ++i) {
      GraphBuilder body;
      const auto state = body.Parameter("state", DType::kF32, {-1});
      const auto one = body.Constant(F32({1}, {1}));
      ValueId next = body.Add("Concat", {state, one}, {{"axis", int64_t{0}}});
      for (int repeat = 0; repeat < 8; ++repeat) {
        next = body.Add("Tanh", {next});
      }
      body.Result("next", next);
      if (i > 0) {
        body.Result("inner", body.Loop({one}, inner, 1));
      }
      inner = Loop();
      inner.body = body.Build();
      inner.inputs = {Carried(0, 0, 0)};
      inner.outputs = {Last(0, 0)};
      inner.states_may_change_shape = true;
    }
    GraphBuilder graph;
    graph.Result("y", graph.Loop({graph.Parameter("x", DType::kF32, {2})}, inner, 1));
    Graph built = graph.Build();
    return std::string(InferGraph(built, Operators()).status().message());
  };
  EXPECT_EQ(infer(4), "");
  EXPECT_THAT(infer(16), HasSubstr("too long to infer"));
}

TEST(LoopControl, IterationNumbersMayBeVectors) {
  GraphBuilder body;
  body.Result("t", body.Parameter("t", DType::kI32, {1}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Iteration(0)};
  loop.outputs = {Joined(0, 0, 0, /*reversed=*/true)};
  loop.trip_count_input = 0;
  GraphBuilder graph;
  graph.Result("all", graph.Loop({graph.Int(3)}, loop, 1));
  const auto outputs = RunGraph(graph.Build(), {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].span<int32_t>(), ElementsAre(2, 1, 0));
}

// A value that becomes NaN goes on as NaN, and only where it is.
TEST(LoopControl, NanStaysInItsPlace) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1, 2});
  const auto h = body.Parameter("h", DType::kF32, {1, 2});
  body.Result("next", body.Add("Add", {h, x}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 0), Carried(1, 1, 0)};
  loop.outputs = {Joined(0, 0, 0)};
  GraphBuilder graph;
  const auto in = graph.Parameter("x", DType::kF32, {-1, 2});
  const auto start = graph.Parameter("h", DType::kF32, {1, 2});
  graph.Result("y", graph.Loop({in, start}, loop, 1));
  const auto outputs =
      RunGraph(graph.Build(), {F32({3, 2}, {1, 2, NAN, 3, 4, 5}), F32({1, 2}, {0, 0})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const std::vector<float> y = Floats((*outputs)[0]);
  EXPECT_EQ(y[0], 1);
  EXPECT_TRUE(std::isnan(y[2]) && std::isnan(y[4]));
  EXPECT_THAT(y[5], 10);
}

}  // namespace
}  // namespace beamwright::ops
