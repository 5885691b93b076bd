// Products of slices, computed for all time steps at once: the same bits as step by step, whatever
// the batch and the number of steps, and nothing hoisted that depends on more than the slice.

#include <algorithm>
#include <functional>
#include <random>

#include "gtest/gtest.h"
#include "ops/base/vector_isa.h"
#include "ops/import/recurrent_sequence.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::Count;
using testing_support::GraphBuilder;
using testing_support::Joined;
using testing_support::Sliced;
using Value = GraphBuilder::Value;

constexpr int64_t kInput = 24;
constexpr int64_t kHidden = 8;

Tensor RandomFloats(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  std::generate(values.begin(), values.end(), [&] { return value(random); });
  return Tensor::Of<float>(shape, values);
}

std::vector<Tensor> Run(const Graph& graph, const GraphInfo& info,
                        const std::vector<Tensor>& inputs) {
  absl::StatusOr<std::vector<Tensor>> outputs = testing_support::RunAsItIs(graph, info, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? *std::move(outputs) : std::vector<Tensor>();
}

const Node& LoopOf(const Graph& graph) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& node) { return node.loop != nullptr; });
}

// Runs `graph` as it is and hoisted over batches and lengths. `products`: how many must have been
// hoisted.
void ExpectSameBits(const Graph& graph, bool time_first, int64_t products) {
  Graph plain = graph;
  const absl::StatusOr<GraphInfo> plain_info = InferGraph(plain, Operators());
  ASSERT_TRUE(plain_info.ok()) << plain_info.status();
  Graph hoisted = graph;
  absl::StatusOr<GraphInfo> info = InferGraph(hoisted, Operators());
  const absl::Status status = HoistInputProducts(hoisted, *info, {Operators()}).status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Count(hoisted, "MatMul") - Count(plain, "MatMul"), products);
  for (const auto& [batch, time] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 25}, {2, 3}, {5, 7}, {33, 2}, {3, 40}}) {
    const Shape shape = time_first ? Shape{time, batch, kInput} : Shape{batch, time, kInput};
    const std::vector<Tensor> inputs = {RandomFloats(shape, 7)};
    SCOPED_TRACE(absl::StrCat(batch, " x ", time));
    testing_support::ExpectSameBits(Run(hoisted, *info, inputs), Run(plain, *plain_info, inputs));
  }
}

struct CellCase {
  RecurrentSequence::Cell cell;
  bool linear = false;
};

Graph SequenceGraph(const CellCase& tested, RecurrentSequence::Direction direction,
                    RecurrentSequence::Layout layout, bool with_bias) {
  const bool time_first = layout == RecurrentSequence::Layout::kOnnx;
  GraphBuilder graph;
  RecurrentSequence sequence;
  sequence.cell = tested.cell;
  sequence.linear_before_reset = tested.linear;
  sequence.direction = direction;
  sequence.layout = layout;
  sequence.hidden_size = kHidden;
  const int64_t directions = direction == RecurrentSequence::Direction::kBidirectional ? 2 : 1;
  const int64_t gates = tested.cell == RecurrentSequence::Cell::kLstm  ? 4
                        : tested.cell == RecurrentSequence::Cell::kGru ? 3
                                                                       : 1;
  sequence.x = graph.Parameter("x", DType::kF32, {-1, -1, kInput});
  sequence.w = graph.Constant(RandomFloats({directions, gates * kHidden, kInput}, 1));
  sequence.r = graph.Constant(RandomFloats({directions, gates * kHidden, kHidden}, 2));
  if (with_bias) {
    sequence.b =
        graph.Constant(RandomFloats({directions, (gates + (tested.linear ? 1 : 0)) * kHidden}, 3));
  }
  // Lengths that are the whole sequence, but not known to be.
  const Value shape = graph.Add("ShapeOf", {sequence.x});
  const Value time = graph.Add("Gather", {shape, graph.Int(time_first ? 0 : 1), graph.Int(0)});
  const Value batch = graph.Add("Gather", {shape, graph.Ints({time_first ? 1 : 0}), graph.Int(0)});
  sequence.lengths = graph.Add("Broadcast", {time, batch});
  Graph built = graph.Build();
  const auto outputs = AppendRecurrentSequence(sequence, "layer", built);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  graph = GraphBuilder(std::move(built));
  graph.Result("y", outputs->y);
  graph.Result("h", outputs->h);
  return graph.Build();
}

TEST(HoistInputProducts, SequencesGiveTheSameBits) {
  using Cell = RecurrentSequence::Cell;
  using Direction = RecurrentSequence::Direction;
  for (const CellCase& tested : {CellCase{Cell::kLstm}, CellCase{Cell::kGru},
                                 CellCase{Cell::kGru, true}, CellCase{Cell::kRnn}}) {
    for (const auto layout :
         {RecurrentSequence::Layout::kOpenVino, RecurrentSequence::Layout::kOnnx}) {
      const bool time_first = layout == RecurrentSequence::Layout::kOnnx;
      const bool with_bias = !time_first;  // the layout changes nothing in biases
      ExpectSameBits(SequenceGraph(tested, Direction::kForward, layout, with_bias), time_first, 1);
      ExpectSameBits(SequenceGraph(tested, Direction::kBidirectional, layout, with_bias),
                     time_first, 2);
    }
  }
}

// What comes by rows is transposed once for both directions; products that are narrower than what
// they are made of are cheaper to cut as they are.
TEST(HoistInputProducts, ProductsStandStepByStep) {
  for (const auto& [cell, transposes] : {std::pair(RecurrentSequence::Cell::kLstm, 1),
                                         std::pair(RecurrentSequence::Cell::kRnn, 0)}) {
    Graph graph = SequenceGraph({cell}, RecurrentSequence::Direction::kBidirectional,
                                RecurrentSequence::Layout::kOpenVino, false);
    absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
    ASSERT_TRUE(info.ok()) << info.status();
    const int64_t before = Count(graph, "Transpose");
    const absl::Status status = HoistInputProducts(graph, *info, {Operators()}).status();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Count(graph, "Transpose") - before, transposes);
  }
}

TEST(HoistInputProducts, ThePlainKernelToo) {
  const ScopedVectorIsa plain(VectorIsa::kPlain);
  ExpectSameBits(
      SequenceGraph({RecurrentSequence::Cell::kLstm}, RecurrentSequence::Direction::kReverse,
                    RecurrentSequence::Layout::kOpenVino, true),
      false, 1);
}

// A TensorIterator as files spell it: the sliced axis squeezed or reshaped away, W and R in one
// matrix. `reads_slice`: something else reads the slice as well.
Graph SpelledOut(bool squeezes, bool joined, bool reads_slice) {
  GraphBuilder body;
  const Value part = body.Parameter("part", DType::kF32, {-1, 1, kInput});
  const Value h = body.Parameter("h", DType::kF32, {-1, kHidden});
  const Value c = body.Parameter("c", DType::kF32, {-1, kHidden});
  const Value x = squeezes ? body.Add("Squeeze", {part, body.Ints({1})})
                           : body.Add("Reshape", {part, body.Ints({-1, kInput})});
  std::vector<Value> inputs = {x, h, c};
  if (joined) {
    inputs.push_back(body.Constant(RandomFloats({4 * kHidden, kInput + kHidden}, 1)));
  } else {
    inputs.push_back(body.Constant(RandomFloats({4 * kHidden, kInput}, 1)));
    inputs.push_back(body.Constant(RandomFloats({4 * kHidden, kHidden}, 2)));
  }
  inputs.push_back(body.Constant(RandomFloats({4 * kHidden}, 3)));
  const Value cell = body.Add("LSTMCell", inputs,
                              {{"hidden_size", kHidden}, {"weights_joined", joined}}, "cell", 2);
  Value out = cell;
  if (reads_slice) {
    const Value projected =
        body.Add("MatMul", {x, body.Constant(RandomFloats({kInput, kHidden}, 4))});
    const Value sum = body.Add("ReduceSum", {x, body.Ints({1})}, {{"keep_dims", true}});
    out = body.Add("Add", {body.Add("Add", {cell, projected}), sum});
  }
  body.Result("y_part", body.Add("Unsqueeze", {out, body.Ints({1})}));
  body.Result("h_next", cell);
  body.Result("c_next", {cell.node, 1});
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 1), Carried(2, 2, 2)};
  loop.outputs = {Joined(0, 0, 1)};
  GraphBuilder graph;
  const Value sequence = graph.Parameter("x", DType::kF32, {-1, -1, kInput});
  const Value batch =
      graph.Add("Gather", {graph.Add("ShapeOf", {sequence}), graph.Ints({0}), graph.Int(0)});
  const Value shape = graph.Add("Concat", {batch, graph.Ints({kHidden})}, {{"axis", int64_t{0}}});
  const Value zeros = graph.Add("Broadcast", {graph.Constant(Tensor::Scalar(0.25F)), shape});
  graph.Result("y", graph.Loop({sequence, zeros, zeros}, std::move(loop), 1));
  return graph.Build();
}

TEST(HoistInputProducts, LoopsThatAreSpelledOut) {
  for (const bool squeezes : {true, false}) {
    for (const bool joined : {true, false}) {
      ExpectSameBits(SpelledOut(squeezes, joined, false), false, 1);
      ExpectSameBits(SpelledOut(squeezes, joined, true), false, 2);
    }
  }
}

// Slices that nothing but products read are not cut any more.
TEST(HoistInputProducts, TheOldSliceGoesUnlessSomethingReadsIt) {
  for (const bool reads_slice : {false, true}) {
    Graph graph = SpelledOut(true, false, reads_slice);
    absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
    ASSERT_TRUE(HoistInputProducts(graph, *info, {Operators()}).ok());
    const Loop& loop = *LoopOf(graph).loop;
    EXPECT_EQ(loop.inputs.size(), reads_slice ? 5u : 3u);
    EXPECT_EQ(loop.body.parameters.size(), loop.inputs.size());
  }
}

// A cell alone reads rows of the product that lie apart; a body that does more would copy them.
TEST(HoistInputProducts, ACellAloneNeedsNoTransposedInput) {
  for (const bool alone : {true, false}) {
    Graph graph = SpelledOut(true, false, !alone);
    absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
    ASSERT_TRUE(HoistInputProducts(graph, *info, {Operators()}).ok());
    EXPECT_EQ(Count(graph, "Transpose"), alone ? 0 : 1);
  }
}

// What depends on a state, or takes more than the sliced axis away, stays.
TEST(HoistInputProducts, OtherProductsStay) {
  GraphBuilder body;
  const Value part = body.Parameter("part", DType::kF32, {-1, 1, kInput});
  const Value h = body.Parameter("h", DType::kF32, {-1, kInput});
  const Value x = body.Add("Squeeze", {part, body.Ints({1})});
  const Value fed = body.Add("Add", {x, h});
  const Value of_state =
      body.Add("MatMul", {fed, body.Constant(RandomFloats({kInput, kInput}, 1))});
  const Value halves = body.Add("Reshape", {part, body.Ints({-1, kInput / 2})});
  const Value of_halves =
      body.Add("MatMul", {halves, body.Constant(RandomFloats({kInput / 2, kInput}, 2))});
  const Value sum = body.Add("ReduceSum", {of_halves, body.Ints({0})}, {{"keep_dims", true}});
  const Value next = body.Add("Tanh", {body.Add("Add", {of_state, sum})});
  body.Result("next", next);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {testing_support::Last(0, 0)};
  GraphBuilder graph;
  const Value sequence = graph.Parameter("x", DType::kF32, {-1, -1, kInput});
  const Value start = graph.Add("ReduceSum", {sequence, graph.Ints({1})}, {{"keep_dims", false}});
  graph.Result("y", graph.Loop({sequence, start}, std::move(loop), 1));
  ExpectSameBits(graph.Build(), false, 0);
}

// One loop whose product can be hoisted, changed a little each time.
TEST(HoistInputProducts, LoopsThatMayEndEarlyOrSkipElementsKeepTheirProducts) {
  const auto hoisted = [](const std::function<void(Loop&)>& change) {
    GraphBuilder body;
    const Value part = body.Parameter("part", DType::kF32, {-1, 1, kInput});
    const Value h = body.Parameter("h", DType::kF32, {-1, kHidden});
    const Value x = body.Add("Squeeze", {part, body.Ints({1})});
    const Value product =
        body.Add("MatMul", {x, body.Constant(RandomFloats({kInput, kHidden}, 1))});
    body.Result("next", body.Add("Add", {product, h}));
    body.Result("goes_on", body.Constant(Tensor::Scalar(true)));
    Loop loop;
    loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
    loop.outputs = {testing_support::Last(0, 0)};
    loop.body = body.Build();
    GraphBuilder graph;
    std::vector<Value> inputs = {graph.Parameter("x", DType::kF32, {-1, 6, kInput}),
                                 graph.Parameter("h", DType::kF32, {-1, kHidden})};
    inputs.push_back(graph.Int(3));
    inputs.push_back(graph.Constant(Tensor::Scalar(true)));
    change(loop);
    graph.Result("y", graph.Loop(inputs, std::move(loop), 1));
    Graph built = graph.Build();
    const absl::StatusOr<GraphInfo> info = InferGraph(built, Operators());
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) {
      return size_t{0};
    }
    const Node& node = LoopOf(built);
    const auto index = static_cast<size_t>(&node - built.nodes.data());
    return HoistedProducts(*node.loop, *info->bodies[index][0]).size();
  };
  EXPECT_EQ(hoisted([](Loop&) {}), 1U);
  EXPECT_EQ(hoisted([](Loop& loop) { loop.trip_count_input = 2; }), 0U);
  EXPECT_EQ(hoisted([](Loop& loop) { loop.condition_input = 3; }), 0U);
  EXPECT_EQ(hoisted([](Loop& loop) { loop.condition_result = 1; }), 0U);
  EXPECT_EQ(hoisted([](Loop& loop) { loop.inputs[0].stride = 2; }), 0U);
  EXPECT_EQ(hoisted([](Loop& loop) { loop.inputs[0].start = 1; }), 0U);
  EXPECT_EQ(hoisted([](Loop& loop) { loop.inputs[0].end = 3; }), 0U);
}

}  // namespace
}  // namespace beamwright::ops
