// Step graphs brought into the form that a search steps: what they compute stays, their ports keep
// names and order.
#include "ops/decoder/step_form.h"

#include <algorithm>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/decoder/decoder_form.h"
#include "ops/decoder/stepped_decoder.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using testing_support::Carried;
using testing_support::Count;
using testing_support::ExpectSameBits;
using testing_support::GraphBuilder;
using testing_support::Iteration;
using testing_support::Joined;
using testing_support::Last;
using testing_support::RunAsItIs;
using testing_support::Scanned;
using testing_support::Sliced;
using testing_support::Stacked;
using Value = GraphBuilder::Value;

Tensor Counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  std::iota(values.begin(), values.end(), 0.5f);
  return Tensor::Of<float>(shape, values);
}

std::vector<std::string> Names(const Graph& graph, const std::vector<int>& ports) {
  std::vector<std::string> names;
  for (const int port : ports) {
    names.push_back(PortName(graph, port));
  }
  return names;
}

Graph Inferred(Graph graph) {
  EXPECT_TRUE(InferGraph(graph, Operators()).ok());
  return graph;
}

// s' = s + part + i, and the part handed on as it is; `x` [2, steps], one part each step.
Graph OneStepLoop(const LoopInput& slice, Shape part, bool stacks, int64_t steps) {
  GraphBuilder body;
  const Value x = body.Parameter("part", DType::kF32, std::move(part));
  const Value s = body.Parameter("s", DType::kF32, {2, 1});
  const Value i = body.Parameter("i", DType::kI64, {});
  const Value flat = body.Add("Reshape", {x, body.Ints({2, 1})}, {{"special_zero", false}});
  const Value number = body.Add("Convert", {i}, {{"destination_type", std::string("f32")}});
  const Value sum = body.Add("Add", {body.Add("Add", {s, flat}), number});
  body.Result("sum", sum);
  body.Result("as_it_is", x);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {slice, Carried(1, 1, 0), Iteration(2)};
  loop.outputs = {Last(0, 0), stacks ? Stacked(1, 1, 1) : Joined(1, 1, 1)};
  GraphBuilder graph;
  const Value data = graph.Parameter("x", DType::kF32, {2, steps});
  const Value start = graph.Parameter("s0", DType::kF32, {2, 1});
  const Value both = graph.Loop({data, start}, std::move(loop), 2);
  graph.Result("last", both);
  graph.Result("parts", {both.node, 1});
  return Inferred(graph.Build());
}

TEST(InlineSingleIterations, TheBodyStandsInTheLoopsPlace) {
  for (const bool drops : {false, true}) {
    const Graph graph = OneStepLoop(drops ? Scanned(0, 0, 1) : Sliced(0, 0, 1),
                                    drops ? Shape{2} : Shape{2, 1}, drops, 1);
    const std::optional<Graph> inlined = InlineSingleIterations(graph);
    ASSERT_TRUE(inlined.has_value());
    EXPECT_EQ(Count(*inlined, "Loop"), 0);
    EXPECT_THAT(Names(*inlined, inlined->parameters), ElementsAre("x", "s0"));
    EXPECT_THAT(Names(*inlined, inlined->results), ElementsAre("last", "parts"));
    const std::vector<Tensor> inputs = {Counted({2, 1}), Counted({2, 1})};
    const auto expected = RunAsItIs(graph, inputs);
    const auto got = RunAsItIs(*inlined, inputs);
    ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
    ExpectSameBits(*got, *expected);
  }
}

// As an nn.LSTMCell inside a scripted loop is exported: a layer over one step.
TEST(InlineSingleIterations, InsideALoopThatStays) {
  GraphBuilder inner;
  const Value part = inner.Parameter("part", DType::kF32, {2, 1});
  const Value s = inner.Parameter("s", DType::kF32, {2, 1});
  inner.Result("sum", inner.Add("Add", {part, s}));
  Loop once;
  once.body = inner.Build();
  once.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  once.outputs = {Last(0, 0)};
  GraphBuilder body;
  const Value step = body.Parameter("step", DType::kF32, {2, 1});
  const Value state = body.Parameter("state", DType::kF32, {2, 1});
  const Value next = body.Loop({step, state}, std::move(once), 1);
  body.Result("next", body.Add("Tanh", {next}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {Last(0, 0), Joined(1, 0, 1)};
  GraphBuilder builder;
  const Value x = builder.Parameter("x", DType::kF32, {2, 3});
  const Value start = builder.Parameter("s0", DType::kF32, {2, 1});
  const Value both = builder.Loop({x, start}, std::move(loop), 2);
  builder.Result("last", both);
  builder.Result("all", {both.node, 1});
  const Graph graph = Inferred(builder.Build());
  const std::optional<Graph> inlined = InlineSingleIterations(graph);
  ASSERT_TRUE(inlined.has_value());
  ASSERT_EQ(Count(*inlined, "Loop"), 1);
  for (const Node& node : inlined->nodes) {
    EXPECT_TRUE(node.loop == nullptr || Count(node.loop->body, "Loop") == 0);
  }
  const std::vector<Tensor> inputs = {Counted({2, 3}), Counted({2, 1})};
  const auto expected = RunAsItIs(graph, inputs);
  const auto got = RunAsItIs(*inlined, inputs);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  ExpectSameBits(*got, *expected);
  EXPECT_FALSE(InlineSingleIterations(*inlined).has_value());
}

TEST(InlineSingleIterations, LoopsOfMoreStepsOrAnUnknownNumberStay) {
  EXPECT_FALSE(InlineSingleIterations(OneStepLoop(Sliced(0, 0, 1), {2, 1}, false, 2)).has_value());
  EXPECT_FALSE(InlineSingleIterations(OneStepLoop(Sliced(0, 0, 1), {2, 1}, false, -1)).has_value());
}

// As TensorFlow writes a recurrent layer over `trips` steps: x[t] is picked by the iteration's
// number, and the condition counts as well.
Graph WhileLoop(int64_t trips) {
  GraphBuilder body;
  const Value i = body.Parameter("i", DType::kI64, {});
  const Value s = body.Parameter("s", DType::kF32, {2});
  const Value x = body.Parameter("x", DType::kF32, {trips, 2});
  const Value part = body.Add("Gather", {x, i, body.Int(0)});
  body.Result("next", body.Add("Add", {s, part}));
  body.Result("goes_on", body.Add("Less", {body.Add("Add", {i, body.Int(1)}), body.Int(trips)}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Iteration(0), Carried(2, 1, 0), testing_support::Invariant(3, 2)};
  loop.outputs = {Last(0, 0), Stacked(1, 0, 0)};
  loop.trip_count_input = 0;
  loop.condition_input = 1;
  loop.condition_result = 1;
  GraphBuilder graph;
  const Value count = graph.Int(trips);
  const Value begins = graph.Add("Less", {graph.Int(0), count});
  const Value start = graph.Parameter("s0", DType::kF32, {2});
  const Value data = graph.Parameter("x", DType::kF32, {trips, 2});
  const Value both = graph.Loop({count, begins, start, data}, std::move(loop), 2);
  graph.Result("last", both);
  graph.Result("parts", {both.node, 1});
  return graph.Build();
}

TEST(InlineSingleIterations, AWhileOverOneTokenIsItsBody) {
  Graph graph = WhileLoop(1);
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(InlineSingleIterations(graph).has_value());  // the count is not known without
  const std::optional<Graph> inlined = InlineSingleIterations(graph, &*info);
  ASSERT_TRUE(inlined.has_value());
  EXPECT_EQ(Count(*inlined, "Loop"), 0);
  const std::vector<Tensor> inputs = {Counted({2}), Counted({1, 2})};
  const auto expected = RunAsItIs(graph, inputs);
  const auto got = RunAsItIs(*inlined, inputs);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  ExpectSameBits(*got, *expected);
  Graph twice = WhileLoop(2);
  const auto twice_info = InferGraph(twice, Operators());
  ASSERT_TRUE(twice_info.ok()) << twice_info.status();
  EXPECT_FALSE(InlineSingleIterations(twice, &*twice_info).has_value());
}

// As OpenVINO's converter writes such a layer: no number of iterations but a condition on states
// that count from `first`, which may be given by the request (first < 0).
Graph ConditionedLoop(int64_t first, int64_t limit, int64_t trips) {
  GraphBuilder body;
  const Value i = body.Parameter("i", DType::kI32, {});
  const Value s = body.Parameter("s", DType::kF32, {2});
  const Value next = body.Add("Add", {i, body.Constant(Tensor::Scalar<int32_t>(1))});
  const Value below =
      body.Add("Less", {next, body.Constant(Tensor::Scalar(static_cast<int32_t>(limit)))});
  body.Result("i_next", next);
  body.Result("s_next", body.Add("Tanh", {s}));
  body.Result("goes_on", body.Add("LogicalAnd", {below, below}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(2, 0, 0), Carried(3, 1, 1)};
  loop.outputs = {Last(0, 1)};
  loop.trip_count_input = 0;
  loop.condition_input = 1;
  loop.condition_result = 2;
  GraphBuilder graph;
  const Value count = graph.Int(trips);
  const Value begins = graph.Add("Less", {graph.Int(0), graph.Int(1)});
  const Value start = first < 0 ? graph.Parameter("first", DType::kI32, {})
                                : graph.Constant(Tensor::Scalar(static_cast<int32_t>(first)));
  const Value state = graph.Parameter("s0", DType::kF32, {2});
  graph.Result("last", graph.Loop({count, begins, start, state}, std::move(loop), 1));
  return graph.Build();
}

TEST(InlineSingleIterations, AConditionThatFailsAtOnceEndsTheLoop) {
  const auto inlined = [](int64_t first, int64_t limit, int64_t trips) {
    Graph graph = ConditionedLoop(first, limit, trips);
    const auto info = InferGraph(graph, Operators());
    EXPECT_TRUE(info.ok()) << info.status();
    std::optional<Graph> result = InlineSingleIterations(graph, &*info);
    if (result.has_value()) {
      const auto expected = RunAsItIs(graph, {Counted({2})});
      const auto got = RunAsItIs(*result, {Counted({2})});
      EXPECT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
      ExpectSameBits(*got, *expected);
    }
    return result.has_value();
  };
  EXPECT_TRUE(inlined(0, 1, -1));
  EXPECT_TRUE(inlined(0, 1, 7));
  EXPECT_TRUE(inlined(4, 5, -1));
  EXPECT_FALSE(inlined(0, 2, -1));
  EXPECT_TRUE(inlined(0, 2, 1));
  EXPECT_FALSE(inlined(0, 1, 0));    // none at all
  EXPECT_FALSE(inlined(-1, 1, -1));  // not known
}

// h [layers, rows, width] -> h + 1, read by a separate result as well.
Graph LayeredStep() {
  GraphBuilder graph;
  const Value tokens = graph.Parameter("tokens", DType::kF32, {-1});
  const Value h = graph.Parameter("h", DType::kF32, {3, -1, 2});
  const Value one = graph.Constant(Tensor::Scalar(1.0f));
  graph.Result("out", graph.Add("Add", {tokens, one}));
  graph.Result("h_next", graph.Add("Add", {h, one}));
  graph.Result("shape", graph.Add("ShapeOf", {h}));
  return Inferred(graph.Build());
}

TEST(MoveRowsFirst, StatesAreTransposedAtThePortsAlone) {
  const Graph graph = LayeredStep();
  Graph moved = graph;
  MoveRowsFirst(moved, {{StepState{1, 1}}});
  EXPECT_THAT(Names(moved, moved.parameters), ElementsAre("tokens", "h"));
  EXPECT_THAT(Names(moved, moved.results), ElementsAre("out", "h_next", "shape"));
  EXPECT_THAT(moved.node(moved.parameters[1]).outputs[0].shape.dims(), ElementsAre(-1, 3, 2));

  const Tensor layers_first = Counted({3, 4, 2});
  Tensor rows_first(DType::kF32, {4, 3, 2});
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t layer = 0; layer < 3; ++layer) {
      std::copy_n(layers_first.data<float>() + (layer * 4 + row) * 2, 2,
                  rows_first.mutable_data<float>() + (row * 3 + layer) * 2);
    }
  }
  const Tensor tokens = Counted({4});
  const auto expected = RunAsItIs(graph, {tokens, layers_first});
  const auto got = RunAsItIs(moved, {tokens, rows_first});
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  EXPECT_EQ((*got)[1].shape(), Shape({4, 3, 2}));
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ((*got)[1].data<float>()[i], rows_first.data<float>()[i] + 1);
  }
  // Inside, nothing changed.
  ExpectSameBits({(*got)[0], (*got)[2]}, {(*expected)[0], (*expected)[2]});
}

// h' = relu(Gather(h, beam_idx)), and what `also_read` asks for.
Graph WithIndex(int64_t axis, bool also_read) {
  GraphBuilder graph;
  const Value h = graph.Parameter("h", DType::kF32, {-1, 2});
  const Value index = graph.Parameter("beam_idx", DType::kI32, {-1});
  graph.Result("h_next", graph.Add("ReLU", {graph.Add("Gather", {h, index, graph.Int(axis)})}));
  if (also_read) {
    graph.Result("index", graph.Add("Abs", {index}));
  }
  return Inferred(graph.Build());
}

std::optional<Graph> WithoutBeamIndex(Graph graph) {
  GraphInfo info;
  const absl::StatusOr<bool> changed = DropBeamIndex(graph, info, {Operators()});
  EXPECT_TRUE(changed.ok()) << changed.status();
  return changed.ok() && *changed ? std::optional(std::move(graph)) : std::nullopt;
}

TEST(WithoutBeamIndex, StatesAreReadInTheirOwnOrder) {
  const std::optional<Graph> graph = WithoutBeamIndex(WithIndex(0, false));
  ASSERT_TRUE(graph.has_value());
  EXPECT_THAT(Names(*graph, graph->parameters), ElementsAre("h"));
  EXPECT_THAT(Names(*graph, graph->results), ElementsAre("h_next"));
  const Tensor h = Counted({3, 2});
  const auto got = RunAsItIs(*graph, {h});
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectSameBits(*got, {h});
}

// As a file could spell it; the operator does not take such a graph.
TEST(WithoutBeamIndex, AnIndexWithinABatchStays) {
  Graph graph = WithIndex(0, false);
  for (Node& node : graph.nodes) {
    if (node.op == "Gather") {
      node.attributes.Set("batch_dims", int64_t{1});
    }
  }
  EXPECT_FALSE(WithoutBeamIndex(graph).has_value());
}

TEST(WithoutBeamIndex, OtherIntegersStay) {
  EXPECT_FALSE(WithoutBeamIndex(WithIndex(1, false)).has_value());
  EXPECT_FALSE(WithoutBeamIndex(WithIndex(0, true)).has_value());
  EXPECT_FALSE(WithoutBeamIndex(LayeredStep()).has_value());
}

// Each step appends `added` places to `past`: to all of it, or to all but its first place.
Graph StepWithPast(bool grows, int added = 1) {
  GraphBuilder graph;
  const Value token = graph.Parameter("token", DType::kI64, {-1});
  const Value past = graph.Parameter("past", DType::kF32, {-1, -1, 2});
  const Value table = graph.Constant(Counted({3, 2}));
  const Value x = graph.Add("Gather", {table, token, graph.Int(0)});
  const Value now = graph.Add("Unsqueeze", {x, graph.Ints({1})});
  const Value kept = grows ? past
                           : graph.Add("Slice", {past, graph.Ints({1}), graph.Ints({1000}),
                                                 graph.Ints({1}), graph.Ints({1})});
  std::vector<Value> parts(static_cast<size_t>(added), now);
  parts.insert(parts.begin(), kept);
  const Value next = graph.Add("Concat", parts, {{"axis", int64_t{1}}}, "behind");
  graph.Result("past_next", next);
  graph.Result("logits", graph.Add("ReduceSum", {next, graph.Ints({1})}, {{"keep_dims", false}}));
  return graph.Build();
}

DecoderPorts PortsWithPast() {
  DecoderPorts ports;
  ports.token_input = "token";
  ports.logits_output = "logits";
  ports.states = {{"past", "past_next"}};
  return ports;
}

TEST(FormDecoder, AStateMayGrowByOneAStep) {
  EXPECT_TRUE(FormDecoder(StepWithPast(false), PortsWithPast()).ok());
  EXPECT_TRUE(FormDecoder(StepWithPast(true), PortsWithPast()).ok());
  EXPECT_EQ(
      FormDecoder(StepWithPast(true, 2), PortsWithPast()).status().message(),
      "decoder.states[0].output: state 'past' grows: Concat 'behind' joins [?, ?, 2] and "
      "[?, 1, 2] and [?, 1, 2] in each step; a state may grow by one, on an axis that the file "
      "leaves open: export the step for one token (tokens [rows, 1]), with that axis of the "
      "state dynamic");
}

// Keys of two requests that have taken different numbers of steps, by the sums of what was read.
TEST(GrowingStates, RowsOfDifferentLengthStepTogether) {
  SteppedDecoder decoder;
  DecoderOptions options;
  options.for_inspection = true;
  const absl::Status compiled =
      CompileDecoder(StepWithPast(true), PortsWithPast(), options, decoder);
  ASSERT_TRUE(compiled.ok()) << compiled;
  const LoopBody& body = *decoder.body;
  EXPECT_EQ(body.growing_axis(0), 1);
  EXPECT_TRUE(body.plan().separable) << body.plan().reason;
  const Tensor empty = Tensor::Zeros(DType::kF32, {1, 0, 2});
  std::vector<StartValues> requests(2);
  for (StartValues& request : requests) {
    const absl::Status prepared = Prepare(decoder, ExecutionContext(), {&empty, 1}, request);
    ASSERT_TRUE(prepared.ok()) << prepared;
  }
  LoopBody::RowScratch scratch;
  std::vector<Tensor> states(1);
  std::vector<Tensor> results;
  // The sum of the first column of the table, over the tokens read, shows a row's history.
  const auto step = [&](std::vector<int> of, std::vector<int> rows, std::vector<int32_t> parents,
                        std::vector<int32_t> tokens, std::vector<int> starts) {
    std::vector<LoopBody::RequestValues*> values;
    std::vector<const std::vector<Tensor>*> first;
    for (const int request : of) {
      values.push_back(&requests[static_cast<size_t>(request)].values);
    }
    for (const int request : starts) {
      first.push_back(&requests[static_cast<size_t>(request)].states);
    }
    const Tensor slice = decoder.TokenTensor(tokens);
    const absl::Status status = body.StepRows(
        ExecutionContext(), {values, rows, parents, {&slice, 1}, first}, scratch, states, results);
    EXPECT_TRUE(status.ok()) << status;
  };
  const auto sums = [&] {
    const Tensor& logits = results[static_cast<size_t>(decoder.logits_result)];
    std::vector<float> first;
    for (int64_t row = 0; row < logits.dim(0); ++row) {
      first.push_back(logits.data<float>()[2 * row]);
    }
    return first;
  };
  const Tensor table = Counted({3, 2});
  const auto of = [&](std::vector<int> tokens) {
    float sum = 0;
    for (const int token : tokens) {
      sum += table.data<float>()[2 * token];
    }
    return sum;
  };
  step({0}, {1}, {0}, {1}, {0});
  EXPECT_THAT(sums(), ::testing::ElementsAre(of({1})));
  // The first request splits, the second one joins.
  step({0, 1}, {2, 1}, {0, 0, 1}, {0, 2, 2}, {1});
  EXPECT_THAT(sums(), ::testing::ElementsAre(of({1, 0}), of({1, 2}), of({2})));
  const std::vector<Tensor> split = body.StatesOfRow(scratch, states, 1);
  EXPECT_EQ(split[0].shape(), Shape({1, 2, 2}));
  // Rows are crossed, and the step is made again as if it had been interrupted.
  step({0, 1}, {2, 2}, {1, 0, 2, 2}, {1, 2, 0, 1}, {});
  const std::vector<float> crossed = {of({1, 2, 1}), of({1, 0, 2}), of({2, 0}), of({2, 1})};
  EXPECT_THAT(sums(), ::testing::ElementsAreArray(crossed));
  body.RestoreStates(scratch, states);
  step({0, 1}, {2, 2}, {0, 1, 2, 3}, {1, 2, 0, 1}, {});
  EXPECT_THAT(sums(), ::testing::ElementsAreArray(crossed));
}

}  // namespace
}  // namespace beamwright::ops
