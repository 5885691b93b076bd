// Joined layers give, bit for bit, what their nodes give one by one.

#include <gtest/gtest.h>

#include <random>

#include "ops/passes/passes.h"
#include "tests/ops/passes/joined_graph.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

std::mt19937& Engine() {
  static std::mt19937 engine(1);
  return engine;
}
Tensor Noise(Shape shape) {
  Tensor result(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<float>()[i] = std::normal_distribution<float>(0, 2)(Engine());
  }
  return result;
}

ValueId Norm(GraphBuilder& graph, ValueId x, int64_t width, int64_t axis = -1) {
  const auto norm =
      graph.Add("MVN", {x, graph.Ints({axis})},
                {{"normalize_variance", true}, {"eps", 1e-6}, {"eps_mode", "inside_sqrt"}});
  const auto scaled = graph.Add("Multiply", {norm, graph.Constant(Noise({width}))});
  return graph.Add("Add", {graph.Constant(Noise({width})), scaled});
}

// Widths within a vector, of whole vectors, and with an end; panels of 512 columns and their end.
TEST(JoinedLayersTest, ProductsTakeTheirBias) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 40}, {5, 512}, {130, 1030}}) {
    for (const bool transposed : {false, true}) {
      GraphBuilder graph;
      const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 9});
      const auto w = graph.Constant(Noise(transposed ? Shape{columns, 9} : Shape{9, columns}));
      const auto y = graph.Add("MatMul", {x, w}, {{"transpose_b", transposed}});
      const auto sum = graph.Add("Add", {y, graph.Constant(Noise({columns}))});
      graph.Result("y", transposed ? sum : graph.Add("ReLU", {sum}));
      const Graph joined = JoinedWithSameBits(graph.Build(), {Noise({2, rows, 9})}, &JoinLayers);
      EXPECT_EQ(CountOf(joined, "BiasedProduct"), 1);
      EXPECT_EQ(CountOf(joined, "MatMul") + CountOf(joined, "Add") + CountOf(joined, "ReLU"), 0);
    }
  }
}

TEST(JoinedLayersTest, NormsTakeWhatIsAdded) {
  for (const int64_t width : {int64_t{1}, int64_t{16}, int64_t{37}, int64_t{256}}) {
    for (const bool has_addend : {false, true}) {
      GraphBuilder graph;
      const auto x = graph.Parameter("x", DType::kF32, {-1, -1, width});
      const auto y = graph.Parameter("y", DType::kF32, {-1, -1, width});
      graph.Result("z", Norm(graph, has_addend ? graph.Add("Add", {x, y}) : x, width));
      const Graph joined = JoinedWithSameBits(
          graph.Build(), {Noise({3, 5, width}), Noise({3, 5, width})}, &JoinLayers);
      EXPECT_EQ(CountOf(joined, "AddedNorm"), 1);
      EXPECT_EQ(joined.nodes.size() - joined.parameters.size(), size_t{4});
    }
  }
}

// Extents that a graph leaves open may be 1 when it runs.
TEST(JoinedLayersTest, OpenExtentsBroadcast) {
  for (const int64_t rows : {int64_t{1}, int64_t{3}}) {
    GraphBuilder graph;
    const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 20});
    const auto y = graph.Parameter("y", DType::kF32, {-1, -1, 20});
    graph.Result("z", Norm(graph, graph.Add("Add", {x, y}), 20));
    JoinedWithSameBits(graph.Build(), {Noise({3, 5, 20}), Noise({rows, 1, 20})}, &JoinLayers);
  }
}

// rows_of_keys 1: what a request's keys are to its rows in a step.
TEST(JoinedLayersTest, AttentionIsOneNode) {
  for (const int64_t rows_of_keys : {int64_t{1}, int64_t{7}}) {
    for (const int64_t length : {int64_t{1}, int64_t{16}, int64_t{45}}) {
      for (const bool reads_shares : {false, true}) {
        for (const bool transposed : {false, true}) {
          GraphBuilder graph;
          const auto q = graph.Parameter("q", DType::kF32, {-1, 2, -1, 9});
          const auto k = graph.Parameter("k", DType::kF32, {-1, 2, -1, -1});
          const auto v = graph.Parameter("v", DType::kF32, {-1, 2, -1, 20});
          const auto products = graph.Add("MatMul", {q, k}, {{"transpose_b", transposed}});
          const auto scaled =
              graph.Add("Multiply", {products, graph.Constant(Tensor::Scalar(0.3f))});
          const auto shares = graph.Add("SoftMax", {scaled}, {{"axis", int64_t{-1}}});
          graph.Result("y", graph.Add("MatMul", {shares, v}));
          if (reads_shares) {
            graph.Result("shares", shares);
          }
          const int64_t positions = rows_of_keys == 1 ? 1 : 8;
          const Graph joined =
              JoinedWithSameBits(graph.Build(),
                                 {Noise({7, 2, positions, 9}),
                                  Noise(transposed ? Shape{rows_of_keys, 2, length, 9}
                                                   : Shape{rows_of_keys, 2, 9, length}),
                                  Noise({rows_of_keys, 2, length, 20})},
                                 &JoinLayers);
          EXPECT_EQ(CountOf(joined, "Attention"), 1);
          EXPECT_EQ(CountOf(joined, "SoftMax") + CountOf(joined, "MatMul"), 0);
        }
      }
    }
  }
}

// A number with more axes than the scores gives them one more.
TEST(JoinedLayersTest, NumbersWithMoreAxesStay) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 12});
  const auto keys = graph.Add("Transpose", {x, graph.Ints({0, 2, 1})});
  const auto scores = graph.Add("MatMul", {x, keys});
  const auto scaled = graph.Add("Multiply", {graph.Constant(Noise({1, 1, 1, 1})), scores});
  const auto shares = graph.Add("SoftMax", {scaled}, {{"axis", int64_t{-1}}});
  graph.Result("y", graph.Add("MatMul", {shares, graph.Add("Unsqueeze", {x, graph.Ints({0})})}));
  graph.Result("shares", shares);
  const Graph joined = JoinedWithSameBits(graph.Build(), {Noise({2, 5, 12})}, &JoinLayers);
  EXPECT_EQ(CountOf(joined, "Attention"), 0);
}

// What is read in between, or is something else, stays.
TEST(JoinedLayersTest, OthersStay) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1, -1, 12});
  const auto product = graph.Add("MatMul", {x, graph.Constant(Noise({12, 12}))});
  const auto sum = graph.Add("Add", {product, graph.Constant(Noise({12}))});
  graph.Result("product", product);
  graph.Result("other axis", Norm(graph, sum, 12, 1));
  const auto keys = graph.Add("Transpose", {x, graph.Ints({0, 2, 1})});
  const auto scores = graph.Add("MatMul", {x, keys});
  const auto shares = graph.Add("SoftMax", {scores}, {{"axis", int64_t{1}}});
  graph.Result("y", graph.Add("MatMul", {shares, x}));
  const Graph joined = JoinedWithSameBits(graph.Build(), {Noise({2, 5, 12})}, &JoinLayers);
  EXPECT_EQ(CountOf(joined, "BiasedProduct") + CountOf(joined, "AddedNorm"), 0);
  EXPECT_EQ(CountOf(joined, "Attention"), 0);
}

}  // namespace
}  // namespace beamwright::ops
