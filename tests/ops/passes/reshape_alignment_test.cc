// Reshapes that leave two extents open: the folded graph gives the same numbers, its rows are
// proven to stay apart, and many rows give the bits that each of them gives alone.

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "ops/compile/row_proof.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/ops/passes/folded_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::Count;
using testing_support::ExpectSameBits;
using testing_support::GraphBuilder;
using testing_support::RunAsItIs;
using Value = GraphBuilder::Value;

Tensor Noise(const Shape& shape) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  std::generate(values.begin(), values.end(), [&] { return value(random); });
  return Tensor::Of<float>(shape, values);
}

Value Extent(GraphBuilder& graph, Value value, int64_t axis) {
  return graph.Add("Gather", {graph.Add("ShapeOf", {value}), graph.Ints({axis}), graph.Int(0)});
}

Value Reshape(GraphBuilder& graph, Value data, const std::vector<Value>& extents) {
  const Value pattern = graph.Add("Concat", extents, {{"axis", int64_t{0}}});
  return graph.Add("Reshape", {data, pattern}, {{"special_zero", false}});
}

struct Folded {
  Graph graph;
  RowProof proof;
};

// Folded as a search's step is: axis 0 counts rows.
Folded Fold(Graph graph) {
  FoldedGraph folded = FoldGraph(std::move(graph), {0});
  RowProof proof = ProveRowsApart(folded.graph, folded.info, Operators());
  return {std::move(folded.graph), std::move(proof)};
}

Tensor RowOf(const Tensor& tensor, int64_t row) {
  Shape shape = tensor.shape();
  shape[0] = 1;
  Tensor result(tensor.dtype(), shape);
  const auto bytes = static_cast<size_t>(result.num_bytes());
  std::copy_n(tensor.bytes() + static_cast<size_t>(row) * bytes, bytes, result.mutable_bytes());
  return result;
}

// What both give of `x`; and of each row alone, if rows are proven apart.
void ExpectSame(const Graph& built, const Folded& folded, const Shape& shape) {
  const Tensor x = Noise(shape);
  const auto expected = RunAsItIs(built, {x});
  const auto found = RunAsItIs(folded.graph, {x});
  ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
  ExpectSameBits(*found, *expected);
  for (int64_t row = 0; folded.proof.separable && row < shape[0]; ++row) {
    const auto alone = RunAsItIs(built, {RowOf(x, row)});
    ASSERT_TRUE(alone.ok()) << alone.status();
    ExpectSameBits({RowOf((*found)[0], row)}, *alone);
  }
}

// x [rows, heads, time] is joined to [rows * heads, 1, time], as nn.MultiheadAttention computes its
// weights, and `extents` (of rows, heads, time) say how it comes apart.
enum Part { kRowsOf, kHeads, kTime, kOne };
Graph Weights(const std::vector<Part>& parts) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 2, -1});
  const Value rows = Extent(graph, x, 0);
  const Value time = Extent(graph, x, 2);
  const Value heads = graph.Ints({2});
  const Value one = graph.Ints({1});
  const Value joined = graph.Add("Multiply", {rows, heads});
  const Value weights =
      graph.Add("SoftMax", {Reshape(graph, x, {joined, one, time})}, {{"axis", int64_t{2}}});
  std::vector<Value> extents;
  for (const Part part : parts) {
    extents.push_back(part == kRowsOf ? rows : part == kHeads ? heads : part == kTime ? time : one);
  }
  graph.Result("r", graph.Add("Tanh", {Reshape(graph, weights, extents)}));
  return graph.Build();
}

TEST(AlignReshapes, WeightsOfHeads) {
  for (const std::vector<Part>& parts :
       std::vector<std::vector<Part>>{{kRowsOf, kHeads, kOne, kTime},
                                      {kRowsOf, kHeads, kOne, kTime, kOne},
                                      {kRowsOf, kHeads, kTime, kOne},
                                      {kRowsOf, kOne, kHeads, kTime},
                                      {kRowsOf, kHeads, kTime}}) {
    const Graph built = Weights(parts);
    const Folded folded = Fold(built);
    EXPECT_EQ(Count(folded.graph, "ShapeOf"), 0);
    EXPECT_TRUE(folded.proof.separable) << folded.proof.reason;
    for (const Shape& shape : {Shape{3, 2, 5}, Shape{1, 2, 1}, Shape{2, 2, 2}, Shape{4, 2, 1}}) {
      ExpectSame(built, folded, shape);
    }
  }
}

// The rows behind another axis: joined there with what is not theirs, and nothing is taken for it.
TEST(AlignReshapes, OtherOrdersGiveTheSameNumbers) {
  for (const std::vector<Part>& parts : std::vector<std::vector<Part>>{
           {kHeads, kRowsOf, kTime}, {kTime, kRowsOf, kHeads}, {kHeads, kTime, kRowsOf}}) {
    const Graph built = Weights(parts);
    const Folded folded = Fold(built);
    EXPECT_FALSE(folded.proof.separable);
    ExpectSame(built, folded, {3, 2, 5});
    ExpectSame(built, folded, {1, 2, 1});
  }
}

// [rows, 2, time] to any shape of the same factors and ones, by way of any other.
TEST(AlignReshapes, AnyOrder) {
  std::mt19937 random(1);
  int num_folded = 0;
  for (int round = 0; round < 200; ++round) {
    GraphBuilder graph;
    const Value x = graph.Parameter("x", DType::kF32, {-1, 2, -1});
    Value value = x;
    for (int i = 0; i < 2; ++i) {
      std::vector<Value> extents = {Extent(graph, x, 0), graph.Ints({2}), Extent(graph, x, 2)};
      if (random() % 4 == 0) {
        std::shuffle(extents.begin(), extents.end(), random);
      }
      if (random() % 2 == 0) {
        const size_t at = random() % 2;
        extents[at] = graph.Add("Multiply", {extents[at], extents[at + 1]});
        extents.erase(extents.begin() + static_cast<ptrdiff_t>(at) + 1);
      }
      for (size_t ones = random() % 3; ones > 0; --ones) {
        extents.insert(extents.begin() + static_cast<ptrdiff_t>(random() % (extents.size() + 1)),
                       graph.Ints({1}));
      }
      value = graph.Add("Tanh", {Reshape(graph, value, extents)});
    }
    // Rows come first again for the comparison row by row.
    graph.Result("r", Reshape(graph, value, {Extent(graph, x, 0), graph.Ints({-1})}));
    const Graph built = graph.Build();
    const Folded folded = Fold(built);
    num_folded += Count(folded.graph, "ShapeOf") == 0 ? 1 : 0;
    for (const Shape& shape : {Shape{3, 2, 5}, Shape{2, 2, 2}, Shape{1, 2, 3}, Shape{5, 2, 1}}) {
      ExpectSame(built, folded, shape);
    }
  }
  EXPECT_GT(num_folded, 50);
}

// An extent of 0 in the target is one of nothing, not one that is kept.
TEST(AlignReshapes, NothingIsAlignedWithoutElements) {
  GraphBuilder graph;
  const Value x = graph.Parameter("x", DType::kF32, {-1, 0, -1});
  const Value rows = Extent(graph, x, 0);
  graph.Result("r",
               Reshape(graph, x, {rows, graph.Ints({0, 1}), Extent(graph, x, 2), graph.Ints({1})}));
  const Graph built = graph.Build();
  ExpectSame(built, Fold(built), {3, 0, 2});
}

}  // namespace
}  // namespace beamwright::ops
