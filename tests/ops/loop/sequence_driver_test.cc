// The loop operator against plain index arithmetic: what each iteration must see, and where each
// part must land, is computed here from the documented ranges alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ops/loop/model.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Invariant;
using testing_support::Joined;
using testing_support::Last;
using testing_support::Sliced;

Tensor Iota(Shape shape) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::iota(tensor.mutable_data<float>(), tensor.mutable_data<float>() + tensor.num_elements(),
            1.0f);
  return tensor;
}

std::vector<float> Values(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

// A body that hands its slice on.
Loop PassThrough(LoopInput input, LoopOutput output) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {-1, -1});
  body.Result("y", x);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {input};
  loop.outputs = {output};
  return loop;
}

absl::StatusOr<std::vector<Tensor>> RunLoop(Loop loop, const std::vector<Tensor>& inputs,
                                            int num_outputs) {
  GraphBuilder graph;
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(graph.Parameter("in" + std::to_string(i), inputs[i].dtype(),
                                     Shape(static_cast<size_t>(inputs[i].rank()), -1)));
  }
  const ValueId output = graph.Loop(values, std::move(loop), num_outputs);
  for (int i = 0; i < num_outputs; ++i) {
    graph.Result("out" + std::to_string(i), {output.node, i});
  }
  absl::StatusOr<std::unique_ptr<Model>> model = Model::Compile(graph.Build());
  if (!model.ok()) {
    return model.status();
  }
  std::vector<Tensor> outputs;
  const absl::Status status = (*model)->Run(ExecutionContext(), inputs, outputs);
  return status.ok() ? absl::StatusOr<std::vector<Tensor>>(outputs) : status;
}

// All ranges over small extents: the parts that iteration t reads, joined in both directions.
TEST(SequenceDriver, EveryRangeOfASmallAxis) {
  for (int64_t extent = 1; extent <= 6; ++extent) {
    const Tensor input = Iota({2, extent});
    for (int64_t start = 0; start < extent; ++start) {
      for (int64_t end = 0; end < extent; ++end) {
        for (int64_t part = 1; part <= 3; ++part) {
          for (const int64_t stride : {part, -part}) {
            for (const bool negative : {false, true}) {
              const int64_t shift = negative ? extent : 0;
              const auto run = [&](bool reversed) {
                return RunLoop(
                    PassThrough(Sliced(0, 0, 1, start - shift, end - shift, stride, part),
                                Joined(0, 0, 1, reversed, part)),
                    {input}, 1);
              };
              const int64_t length = (stride > 0 ? end - start : start - end) + 1;
              if (length <= 0 || length % part != 0) {
                EXPECT_FALSE(run(false).ok()) << start << ' ' << end << ' ' << stride;
                continue;
              }
              // Columns in the order of iterations; inside a part they ascend.
              std::vector<int64_t> columns;
              for (int64_t t = 0; t < length / part; ++t) {
                const int64_t first = stride > 0 ? start + t * part : start - (t + 1) * part + 1;
                for (int64_t i = 0; i < part; ++i) {
                  columns.push_back(first + i);
                }
              }
              std::vector<int64_t> backwards;
              for (int64_t t = length / part; t-- > 0;) {
                for (int64_t i = 0; i < part; ++i) {
                  backwards.push_back(columns[static_cast<size_t>(t * part + i)]);
                }
              }
              for (const bool reversed : {false, true}) {
                std::vector<float> expected;
                for (int64_t row = 0; row < 2; ++row) {
                  for (const int64_t column : reversed ? backwards : columns) {
                    expected.push_back(static_cast<float>(row * extent + column + 1));
                  }
                }
                const auto outputs = run(reversed);
                ASSERT_TRUE(outputs.ok()) << outputs.status();
                EXPECT_EQ(Values((*outputs)[0]), expected)
                    << extent << ' ' << start << ' ' << end << ' ' << stride << ' ' << reversed;
              }
            }
          }
        }
      }
    }
  }
}

// Running sum over time, with an invariant factor: state, joined output and last value at once.
TEST(SequenceDriver, StatesInvariantsAndOutputs) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {-1, 1});
  const auto h = body.Parameter("h", DType::kF32, {-1, 1});
  const auto factor = body.Parameter("factor", DType::kF32, {1});
  const auto next = body.Add("Add", {h, body.Add("Multiply", {x, factor})});
  body.Result("next", next);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0), Invariant(2, 2)};
  loop.outputs = {Joined(0, 0, 1), Last(1, 0)};
  const auto outputs = RunLoop(loop,
                               {Iota({1, 4}), Tensor::Of<float>({1, 1}, std::vector<float>{10}),
                                Tensor::Of<float>({1}, std::vector<float>{2})},
                               2);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(12, 16, 22, 30));
  EXPECT_THAT(Values((*outputs)[1]), ElementsAre(30));
}

// Back edges act together: two states that swap in each iteration.
TEST(SequenceDriver, SwappedStates) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1, 1});
  const auto a = body.Parameter("a", DType::kF32, {1});
  const auto b = body.Parameter("b", DType::kF32, {1});
  body.Result("ra", a);
  body.Result("rb", b);
  body.Result("rx", x);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 1), Carried(2, 2, 0)};
  loop.outputs = {Last(0, 0), Last(1, 1), Joined(2, 2, 1)};
  const auto outputs = RunLoop(loop,
                               {Iota({1, 3}), Tensor::Of<float>({1}, std::vector<float>{1}),
                                Tensor::Of<float>({1}, std::vector<float>{2})},
                               3);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  // Iterations see (1, 2), (2, 1), (1, 2).
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(1));
  EXPECT_THAT(Values((*outputs)[1]), ElementsAre(2));
}

TEST(SequenceDriver, OneInputFeedsTwoParametersInBothDirections) {
  GraphBuilder body;
  const auto forward = body.Parameter("f", DType::kF32, {1, 1});
  const auto backward = body.Parameter("b", DType::kF32, {1, 1});
  body.Result("pair", body.Add("Concat", {forward, backward}, {{"axis", int64_t{0}}}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Sliced(0, 1, -1, -1, 0, -1)};
  loop.outputs = {Joined(0, 0, 1)};
  const auto outputs = RunLoop(loop, {Iota({1, 3})}, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(1, 2, 3, 3, 2, 1));
}

TEST(SequenceDriver, ScalarResultsAreStacked) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1});
  body.Result("s", body.Add("Reshape", {x, body.Ints({})}, {{"special_zero", false}}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 0)};
  loop.outputs = {Joined(0, 0, 0, /*reversed=*/true)};
  const auto outputs = RunLoop(loop, {Iota({3})}, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].shape(), (Shape{3}));
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(3, 2, 1));
}

// A loop inside a loop: the inner one sums a row, the outer one goes over rows.
TEST(SequenceDriver, Nested) {
  GraphBuilder inner;
  const auto cell = inner.Parameter("cell", DType::kF32, {1, 1});
  const auto sum = inner.Parameter("sum", DType::kF32, {1, 1});
  inner.Result("next", inner.Add("Add", {cell, sum}));
  Loop inner_loop;
  inner_loop.body = inner.Build();
  inner_loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  inner_loop.outputs = {Last(0, 0)};
  GraphBuilder outer;
  const auto row = outer.Parameter("row", DType::kF32, {1, -1});
  const auto zero = outer.Constant(Tensor::Zeros(DType::kF32, {1, 1}));
  outer.Result("sum", outer.Loop({row, zero}, inner_loop, 1));
  Loop loop;
  loop.body = outer.Build();
  loop.inputs = {Sliced(0, 0, 0)};
  loop.outputs = {Joined(0, 0, 0)};
  const auto outputs = RunLoop(loop, {Iota({2, 3})}, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(6, 15));
}

TEST(SequenceDriver, NoSlicedInputRunsOnce) {
  GraphBuilder body;
  const auto h = body.Parameter("h", DType::kF32, {1});
  body.Result("next", body.Add("Add", {h, h}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(0, 0, 0)};
  loop.outputs = {Last(0, 0)};
  const auto outputs = RunLoop(loop, {Iota({1})}, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(2));
}

// Parts are concatenated as they are: a rule that leaves their extent at 1 says nothing of it.
TEST(SequenceDriver, PartsOfADefaultRuleMayBeLonger) {
  Loop loop = PassThrough(Sliced(0, 0, 0), Joined(0, 0, 1));
  loop.body.node(loop.body.parameters[0]).outputs[0].shape = PartialShape({1, 3});
  const auto outputs = RunLoop(loop, {Iota({2, 3})}, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)[0].shape(), (Shape{1, 6}));
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

// A loop that slices nothing may have a constant trip count.
TEST(SequenceDriver, ConstantTripCount) {
  const auto run = [](int64_t trips) {
    GraphBuilder body;
    const auto h = body.Parameter("h", DType::kF32, {1});
    body.Result("next", body.Add("Add", {h, h}));
    Loop loop;
    loop.body = body.Build();
    loop.inputs = {Carried(0, 0, 0)};
    loop.outputs = {Last(0, 0), Joined(1, 0, 0)};
    loop.trip_count_input = 1;
    GraphBuilder graph;
    const auto in = graph.Parameter("in", DType::kF32, {1});
    const auto out = graph.Loop({in, graph.Int(trips)}, loop, 2);
    graph.Result("last", out);
    graph.Result("all", {out.node, 1});
    auto model = Model::Compile(graph.Build());
    std::vector<Tensor> outputs;
    const Tensor input = Iota({1});
    const absl::Status status =
        model.ok() ? (*model)->Run(ExecutionContext(), {&input, 1}, outputs) : model.status();
    return status.ok() ? absl::StatusOr<std::vector<Tensor>>(outputs) : status;
  };
  const auto outputs = run(3);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT(Values((*outputs)[0]), ElementsAre(8));
  EXPECT_THAT(Values((*outputs)[1]), ElementsAre(2, 4, 8));
  EXPECT_THAT(run(-1).status().message(), HasSubstr("nothing ends the loop"));
  EXPECT_THAT(run(int64_t{1} << 40).status().message(), HasSubstr("larger than 8 GiB"));
}

TEST(SequenceDriver, ErrorsNameThePort) {
  const auto message = [](LoopInput input, LoopOutput output) {
    return std::string(RunLoop(PassThrough(input, output), {Iota({2, 4})}, 1).status().message());
  };
  EXPECT_THAT(message(Sliced(0, 0, 1, 0, 4), Joined(0, 0, 1)),
              HasSubstr("input port 0: end 4 is outside [-4, 3]"));
  EXPECT_THAT(message(Sliced(0, 0, 1, 3, 0), Joined(0, 0, 1)), HasSubstr("stride is 1"));
  EXPECT_THAT(message(Sliced(0, 0, 1, 0, -1, 0), Joined(0, 0, 1)), HasSubstr("stride is 0"));
  EXPECT_THAT(message(Sliced(0, 0, 1, 0, -1, 3, 3), Joined(0, 0, 1, false, 3)),
              HasSubstr("does not divide into parts of 3"));
  EXPECT_THAT(message(Sliced(0, 0, 2), Joined(0, 0, 1)), HasSubstr("axis 2 is outside [-2, 1]"));
  EXPECT_THAT(message(Sliced(0, 0, 1), Joined(0, 0, 1, false, 2)), HasSubstr("the rule says 2"));
}

TEST(SequenceDriver, AnEmptyAxisIsAnError) {
  const auto outputs =
      RunLoop(PassThrough(Sliced(0, 0, 1), Joined(0, 0, 1)), {Tensor(DType::kF32, {2, 0})}, 1);
  EXPECT_THAT(outputs.status().message(), HasSubstr("empty"));
}

TEST(SequenceDriver, SlicedInputsMustAgree) {
  GraphBuilder body;
  const auto a = body.Parameter("a", DType::kF32, {1, 1});
  const auto b = body.Parameter("b", DType::kF32, {1, 1});
  body.Result("y", body.Add("Add", {a, b}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Sliced(1, 1, 1)};
  loop.outputs = {Joined(0, 0, 1)};
  EXPECT_THAT(RunLoop(loop, {Iota({1, 3}), Iota({1, 4})}, 1).status().message(),
              HasSubstr("another sliced input has 3"));
}

TEST(SequenceDriver, StatesKeepTypeAndShape) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1, 1});
  const auto h = body.Parameter("h", DType::kF32, {-1, -1});
  body.Result("next", body.Add("Concat", {h, x}, {{"axis", int64_t{1}}}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {Last(0, 0)};
  EXPECT_THAT(
      RunLoop(loop, {Iota({1, 2}), Iota({1, 1})}, 1).status().message(),
      HasSubstr("back edge to body Parameter 'h' carries f32[1, 2], the state is f32[1, 1]"));
}

TEST(SequenceDriver, RulesAreChecked) {
  const auto message = [](void (*change)(Loop&)) {
    Loop loop = PassThrough(Sliced(0, 0, 1), Joined(0, 0, 1));
    change(loop);
    return std::string(RunLoop(loop, {Iota({2, 4})}, 1).status().message());
  };
  EXPECT_THAT(message([](Loop& loop) { loop.inputs.push_back(loop.inputs[0]); }),
              HasSubstr("fed twice"));
  EXPECT_THAT(message([](Loop& loop) { loop.inputs.clear(); }),
              HasSubstr("nothing feeds body Parameter 'x'"));
  EXPECT_THAT(message([](Loop& loop) { loop.inputs[0].body_parameter = 7; }),
              HasSubstr("body parameter 7"));
  EXPECT_THAT(message([](Loop& loop) { loop.outputs[0].body_result = 3; }),
              HasSubstr("body result 3"));
  EXPECT_THAT(message([](Loop& loop) { loop.inputs[0] = Carried(0, 0, 5); }),
              HasSubstr("back edge from body result 5"));
  EXPECT_THAT(message([](Loop& loop) { loop.condition_result = 0; }),
              HasSubstr("the body's condition is f32[?, 1]"));
}

TEST(SequenceDriver, DeadlineIsSeenInTheLoop) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1});
  graph.Result("y", graph.Loop({x}, PassThrough(Sliced(0, 0, 1), Joined(0, 0, 1)), 1));
  const auto model = Model::Compile(graph.Build());
  ASSERT_TRUE(model.ok());
  ExecutionContext context;
  context.deadline = absl::InfinitePast();
  std::vector<Tensor> outputs;
  const Tensor input = Iota({2, 4});
  EXPECT_EQ((*model)->Run(context, {&input, 1}, outputs).code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace beamwright::ops
