// What a compiled graph keeps of its weights: each of them once, in whatever form it is used, and
// equal ones of several models once for all.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <memory>

#include "ops/graph/rewrite.h"
#include "ops/kernels/shared_weights.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tests/support/sanitized.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

Tensor Ramp(Shape shape, DType dtype, int seed = 0) {
  Tensor tensor(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = static_cast<float>((i + seed) % 61) / 64 - 0.5f;
  }
  return dtype == DType::kF32 ? tensor : *Convert(tensor, dtype);
}

int64_t BytesOf(const Slots& slots) {
  int64_t bytes = 0;
  for (const Tensor& slot : slots) {
    bytes += slot.num_bytes();
  }
  return bytes;
}

// Files keep weights as f16 with a Convert behind them: neither form stays once a product and a
// cell have packed it. A constant that is read stays, also if a product has packed it as well.
TEST(HeldOnce, PackedWeightsAreNotKeptASecondTime) {
  std::vector<Tensor> expected;  // the weights are exact in each type
  for (const DType stored : {DType::kF32, DType::kF16, DType::kBF16}) {
    GraphBuilder builder;
    const Value x = builder.Parameter("x", DType::kF32, {-1, 16});
    const auto weight = [&](Shape shape) {
      const Value constant = builder.Constant(Ramp(std::move(shape), stored));
      return stored == DType::kF32
                 ? constant
                 : builder.Add("Convert", {constant}, {{"destination_type", std::string("f32")}});
    };
    const Value product = builder.Add("MatMul", {x, weight({16, 64})});
    const Value cell = builder.Add("GRUCell", {x, product, weight({192, 16}), weight({192, 64})},
                                   {{"hidden_size", int64_t{64}}});
    const Value kept = weight({16, 16});
    const Value both = builder.Add("MatMul", {builder.Add("Add", {x, kept}), kept});
    builder.Result("cell", cell);
    builder.Result("both", both);
    builder.Result("constant", kept);
    Graph graph = builder.Build();
    const Graph original = graph;

    const GraphInfo info = *InferGraph(graph, Operators());
    const std::vector<bool> all(graph.nodes.size(), true);
    Program program = *Program::Compile(graph, info, Operators(), all);
    EXPECT_GT(BytesOf(program.MakeSlots()), 16 * 16 * 4);
    Program* const programs[] = {&program};
    Program::DropUnread(graph, programs);
    EXPECT_EQ(BytesOf(program.MakeSlots()), 16 * 16 * 4) << Name(stored);

    const std::unique_ptr<Model> model = *Model::Compile(original);
    for (const Node& node : model->graph().nodes) {
      EXPECT_LE(node.constant.num_bytes(), 4096);
    }
    std::vector<Tensor> outputs;
    const absl::Status ran = model->Run({}, {Ramp({16, 16}, DType::kF32)}, outputs);
    ASSERT_TRUE(ran.ok()) << ran;
    expected = expected.empty() ? outputs : expected;
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_EQ(outputs[i].shape(), expected[i].shape());
      EXPECT_EQ(std::memcmp(outputs[i].bytes(), expected[i].bytes(),
                            static_cast<size_t>(outputs[i].num_bytes())),
                0);
    }
  }
}

// Large constants of loop bodies and branches go, their types and shapes stay, and the graph that
// they were copied from keeps them.
TEST(HeldOnce, BodiesDropTheirConstants) {
  GraphBuilder body;
  const Value h = body.Parameter("h", DType::kF32, {-1, 64});
  const Value weight = body.Constant(Ramp({64, 64}, DType::kF32));
  body.Result("next", body.Add("Add", {body.Add("MatMul", {h, weight}),
                                       body.Constant(Ramp({64}, DType::kF32))}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Carried(0, 0, 0)};
  loop.outputs = {testing_support::Last(0, 0)};
  GraphBuilder builder;
  const Value start = builder.Parameter("h", DType::kF32, {-1, 64});
  builder.Result("y", builder.Loop({start}, std::move(loop), 1));
  Graph graph = builder.Build();
  ASSERT_TRUE(InferGraph(graph, Operators()).ok());
  const Graph original = graph;
  DropLargeConstants(graph);
  const auto bytes = [&](const Graph& of) {
    int64_t sum = 0;
    for (const Node& node : of.node(1).loop->body.nodes) {
      sum += node.constant.num_bytes();
    }
    return sum;
  };
  EXPECT_EQ(bytes(graph), 64 * 4);
  EXPECT_EQ(bytes(original), 64 * 64 * 4 + 64 * 4);
  // It can be inferred again: for a loop that runs no iteration that is done in a run.
  const absl::StatusOr<GraphInfo> again = InferGraph(graph, Operators());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(graph.info({1, 0}).shape.ToString(), original.info({1, 0}).shape.ToString());
}

// Bytes that malloc has given out.
int64_t Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

constexpr int64_t kWide = 1024;

// Some 100 MB of weights: a table, a sequence of LSTM cells, products inside and outside of a loop.
// `seed` sets the weights of the last product apart.
Graph LargeGraph(int seed) {
  GraphBuilder body;
  const Value part = body.Parameter("part", DType::kF32, {-1, 1, kWide});
  const Value h = body.Parameter("h", DType::kF32, {-1, kWide});
  const Value c = body.Parameter("c", DType::kF32, {-1, kWide});
  const Value w = body.Parameter("w", DType::kF32, {4 * kWide, kWide});
  const Value memory = body.Parameter("memory", DType::kF32, {-1, kWide});
  const Value keys =
      body.Add("MatMul", {memory, body.Constant(Ramp({kWide, kWide}, DType::kF32, 5))});
  const Value cell = body.Add("LSTMCell",
                              {body.Add("Add", {body.Add("Squeeze", {part, body.Ints({1})}), keys}),
                               h, c, w, body.Constant(Ramp({4 * kWide, kWide}, DType::kF32, 2))},
                              {{"hidden_size", kWide}}, "cell", 2);
  body.Result("h_next", cell);
  body.Result("c_next", {cell.node, 1});
  body.Result("part", body.Add("Unsqueeze", {cell, body.Ints({1})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 0),
                 testing_support::Carried(2, 2, 1), testing_support::Invariant(3, 3),
                 testing_support::Invariant(4, 4)};
  loop.outputs = {testing_support::Joined(0, 2, 1)};
  GraphBuilder graph;
  const Value ids = graph.Parameter("ids", DType::kI64, {-1, -1});
  const Value start = graph.Parameter("h", DType::kF32, {-1, kWide});
  const Value memory_in = graph.Parameter("memory", DType::kF32, {-1, kWide});
  const Value table = graph.Constant(Ramp({4 * kWide, kWide}, DType::kF32, 3));
  const Value x = graph.Add("Gather", {table, ids, graph.Int(0)});
  const Value weights = graph.Constant(Ramp({4 * kWide, kWide}, DType::kF32, 1));
  const Value y = graph.Loop({x, start, start, weights, memory_in}, std::move(loop), 1);
  graph.Result(
      "logits",
      graph.Add("MatMul", {y, graph.Constant(Ramp({kWide, 8 * kWide}, DType::kF32, seed))}));
  return graph.Build();
}

constexpr int64_t kLargeBytes = (4 + 4 + 1 + 4 + 8) * kWide * kWide * 4;
constexpr int64_t kLastBytes = 8 * kWide * kWide * 4;

TEST(HeldOnce, AModelOfAHundredMegabytes) {
  if (testing_support::kSanitized) {
    GTEST_SKIP() << "the sanitizer's malloc does not count";
  }
  const int64_t before = Allocated();
  const size_t weights = NumSharedWeights();
  std::unique_ptr<Model> first = *Model::Compile(LargeGraph(11));
  const int64_t one = Allocated() - before;
  EXPECT_GT(one, kLargeBytes - kLargeBytes / 50);
  EXPECT_LT(one, kLargeBytes + kLargeBytes / 20);
  // A run leaves nothing behind but a thread's buffers, of a few rows.
  std::vector<Tensor> outputs;
  const std::vector<Tensor> inputs = {Tensor::Zeros(DType::kI64, {1, 2}),
                                      Tensor::Zeros(DType::kF32, {1, kWide}),
                                      Tensor::Zeros(DType::kF32, {1, kWide})};
  const absl::Status ran = first->Run({}, inputs, outputs);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_LT(Allocated() - before, kLargeBytes + kLargeBytes / 20);

  // A second version with another last layer adds that layer and its table.
  const int64_t with_one = Allocated();
  std::unique_ptr<Model> second = *Model::Compile(LargeGraph(12));
  const int64_t table_bytes = 4 * kWide * kWide * 4;
  EXPECT_LT(Allocated() - with_one, kLastBytes + table_bytes + kLargeBytes / 20);
  EXPECT_EQ(NumSharedWeights(), weights + 5);
  std::unique_ptr<Model> third = *Model::Compile(LargeGraph(12));
  EXPECT_EQ(NumSharedWeights(), weights + 5);

  // What is shared lives as long as one model that uses it.
  first = nullptr;
  EXPECT_EQ(NumSharedWeights(), weights + 4);
  std::vector<Tensor> again;
  ASSERT_TRUE(second->Run({}, inputs, again).ok());
  second = nullptr;
  third = nullptr;
  outputs.clear();
  again.clear();
  EXPECT_EQ(NumSharedWeights(), weights);
  EXPECT_LT(Allocated() - before, kLargeBytes / 20);
}

}  // namespace
}  // namespace beamwright::ops
