// Loops as TensorFlow writes a `while`: what they carry but never change, and what only counts.
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Last;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

struct Variant {
  int64_t first = 0;
  int64_t stride = 1;
  bool reads_count = false;  // the loop's last number is a result
};

// h = h * weight + t, n times; gives h and the weight as the loop leaves it.
Graph Counting(const Variant& variant) {
  GraphBuilder body;
  const Value t = body.Parameter("t", DType::kI64, {});
  const Value h = body.Parameter("h", DType::kF32, {2});
  const Value weight = body.Parameter("weight", DType::kF32, {2});
  const Value number = body.Add("Convert", {t}, {{"destination_type", std::string("f32")}});
  body.Result("h_next", body.Add("Add", {body.Add("Multiply", {h, weight}), number}));
  body.Result("t_next", body.Add("Add", {t, body.Int(variant.stride)}));
  body.Result("weight_next", weight);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Carried(1, 0, 1), Carried(2, 1, 0), Carried(3, 2, 2)};
  loop.outputs = {Last(0, 1), Last(1, 2), Last(2, 0)};
  loop.trip_count_input = 0;
  loop.states_may_change_shape = true;
  GraphBuilder graph;
  const Value n = graph.Parameter("n", DType::kI64, {});
  const Value h0 = graph.Parameter("h", DType::kF32, {2});
  const Value first = graph.Int(variant.first);
  const Value weights = graph.Constant(Tensor::Of<float>({2}, std::vector<float>{0.5f, -2}));
  const Value out = graph.Loop({n, first, h0, weights}, std::move(loop), 3);
  graph.Result("h_last", Value{out.node, 2});
  graph.Result("weight_last", Value{out.node, 1});
  if (variant.reads_count) {
    graph.Result("t_last", Value{out.node, 0});
  }
  return graph.Build();
}

Graph Folded(Graph graph) { return FoldGraph(std::move(graph)).graph; }

int CountRules(const Graph& graph, LoopInput::Kind kind) {
  int count = 0;
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; node.loop != nullptr && i < node.loop->inputs.size(); ++i) {
      count += node.loop->inputs[i].kind == kind ? 1 : 0;
    }
  }
  return count;
}

void ExpectSame(const Graph& built, const Graph& folded) {
  for (const int64_t n : {0, 1, 4}) {
    const std::vector<Tensor> inputs = {Tensor::Scalar(n),
                                        Tensor::Of<float>({2}, std::vector<float>{1, 3})};
    const auto expected = RunAsItIs(built, inputs);
    const auto actual = RunAsItIs(folded, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(actual.ok()) << actual.status();
    testing_support::ExpectSameBits(*actual, *expected);
  }
}

TEST(PlainStatesTest, WeightsAndTheNumberAreNoStates) {
  const Graph built = Counting({});
  const Graph folded = Folded(built);
  EXPECT_EQ(CountRules(folded, LoopInput::Kind::kCarried), 1);
  EXPECT_EQ(CountRules(folded, LoopInput::Kind::kInvariant), 1);
  EXPECT_EQ(CountRules(folded, LoopInput::Kind::kIteration), 1);
  ExpectSame(built, folded);
}

TEST(PlainStatesTest, OtherCountsStayStates) {
  const Variant variants[] = {{.first = 1}, {.stride = 2}, {.reads_count = true}};
  for (const Variant& variant : variants) {
    const Graph built = Counting(variant);
    const Graph folded = Folded(built);
    EXPECT_EQ(CountRules(folded, LoopInput::Kind::kCarried), 2);
    EXPECT_EQ(CountRules(folded, LoopInput::Kind::kIteration), 0);
    ExpectSame(built, folded);
  }
}

}  // namespace
}  // namespace beamwright::ops
