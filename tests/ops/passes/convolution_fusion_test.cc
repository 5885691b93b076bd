// Convolutions with what follows them: joined, they give every bit that their nodes give; with
// norms folded into their filters, the same numbers but for rounding.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tests/ops/passes/joined_graph.h"
#include "tests/support/graph_builder.h"
#include "tests/support/run_graph.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

Tensor Noise(Shape shape, float least = -2, float most = 2) {
  static std::mt19937 engine(1);
  Tensor result(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<float>()[i] = std::uniform_real_distribution<float>(least, most)(engine);
  }
  return result;
}

// A convolution of 3 x 3, and what its data and its results are.
struct Case {
  const char* op;
  Shape filter;
  Shape data;
  int64_t channels() const { return filter.size() == 5 ? filter[0] * filter[1] : filter[0]; }
};

// All ways of ops/kernels/float_convolution.h: strips, rows, one row, taps of one and of several
// rows of outputs.
std::vector<Case> Cases() {
  return {{"Convolution", {20, 3, 3, 3}, {2, 3, 17, 40}},
          {"Convolution", {40, 70, 3, 3}, {3, 70, 3, 3}},
          {"Convolution", {600, 5, 1, 1}, {2, 5, 1, 1}},
          {"GroupConvolution", {6, 1, 1, 3, 3}, {2, 6, 13, 21}},
          {"GroupConvolution", {5, 2, 1, 5, 5}, {1, 5, 19, 70}},
          {"GroupConvolution", {2, 7, 4, 3, 3}, {1, 8, 9, 33}}};
}

ValueId AddConvolution(GraphBuilder& graph, const Case& c, ValueId data) {
  const int64_t pad = c.filter.back() / 2;
  const std::vector<int64_t> ones = {1, 1};
  const std::vector<int64_t> pads = {pad, pad};
  return graph.Add(
      c.op, {data, graph.Constant(Noise(c.filter))},
      {{"strides", ones}, {"dilations", ones}, {"pads_begin", pads}, {"pads_end", pads}});
}

enum class End { kBias, kRelu, kHardSwish, kMultiplied, kSiluAndScale, kClampAlone };

ValueId AddEnd(GraphBuilder& graph, End end, const Case& c, ValueId x) {
  const auto number = [&](float value) { return graph.Constant(Tensor::Scalar(value)); };
  const auto channels = [&] { return graph.Constant(Noise({1, c.channels(), 1, 1})); };
  if (end == End::kClampAlone) {
    return graph.Add("Clamp", {x}, {{"min", -1.0}, {"max", 1.5}});
  }
  const ValueId sum = graph.Add("Add", {x, channels()});
  switch (end) {
    case End::kRelu:
      return graph.Add("ReLU", {sum});
    case End::kHardSwish:
    case End::kMultiplied: {
      const ValueId gate =
          graph.Add("Clamp", {graph.Add("Add", {sum, number(3)})}, {{"min", 0.0}, {"max", 6.0}});
      const ValueId product = graph.Add("Multiply", {gate, sum});
      return end == End::kHardSwish ? graph.Add("Divide", {product, number(6)})
                                    : graph.Add("Multiply", {number(0.16F), product});
    }
    case End::kSiluAndScale:
      return graph.Add(
          "Subtract",
          {number(1),
           graph.Add("Multiply",
                     {graph.Add("Multiply", {sum, graph.Add("Sigmoid", {sum})}), channels()})});
    default:
      return sum;
  }
}

TEST(JoinConvolutionsTest, GivesTheBitsOfTheNodes) {
  for (const Case& c : Cases()) {
    for (const End end : {End::kBias, End::kRelu, End::kHardSwish, End::kMultiplied,
                          End::kSiluAndScale, End::kClampAlone}) {
      GraphBuilder graph;
      Shape open = c.data;
      open[0] = open[2] = open[3] = -1;
      const ValueId x = graph.Parameter("x", DType::kF32, std::move(open));
      graph.Result("y", AddEnd(graph, end, c, AddConvolution(graph, c, x)));
      const Graph joined = JoinedWithSameBits(graph.Build(), {Noise(c.data)}, &JoinConvolutions);
      EXPECT_EQ(CountOf(joined, "ConvolutionChain"), 1);
      EXPECT_EQ(joined.nodes.size() - static_cast<size_t>(CountOf(joined, "Constant")), 3u);
    }
  }
}

// A value that other nodes read stays a result. Computed operands do not join a convolution.
TEST(JoinConvolutionsTest, StopsAtWhatOthersRead) {
  const Case c = {"Convolution", {4, 3, 3, 3}, {1, 3, 9, 10}};
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, {-1, 3, -1, -1});
  const ValueId sum = AddEnd(graph, End::kBias, c, AddConvolution(graph, c, x));
  const ValueId gate = graph.Add(
      "Sigmoid", {graph.Add("ReduceMean", {sum, graph.Ints({2, 3})}, {{"keep_dims", true}})});
  graph.Result("y", graph.Add("ReLU", {graph.Add("Multiply", {sum, gate})}));
  const ValueId other = AddConvolution(graph, c, x);
  graph.Result("z", graph.Add("ReLU", {other}));
  graph.Result("other", other);
  const Graph joined = JoinedWithSameBits(graph.Build(), {Noise(c.data)}, &JoinConvolutions);
  EXPECT_EQ(CountOf(joined, "ConvolutionChain"), 1);
  EXPECT_EQ(CountOf(joined, "Convolution"), 1);
}

// The graph with norms folded, which gives what the graph gives, but for rounding.
Graph FoldedAlike(Graph graph, const Tensor& data) {
  const auto expected = testing_support::RunAsItIs(graph, {data});
  auto info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  Graph folded = std::move(graph);
  const absl::StatusOr<bool> changed = FoldNorms(folded, *info, {Operators()});
  EXPECT_TRUE(changed.ok()) << changed.status();
  const auto found = testing_support::RunAsItIs(folded, {data});
  EXPECT_TRUE(expected.ok() && found.ok() && expected->size() == found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    for (int64_t k = 0; k < (*found)[i].num_elements(); ++k) {
      const float want = (*expected)[i].data<float>()[k];
      EXPECT_NEAR((*found)[i].data<float>()[k], want, 2e-5 * (10 + std::abs(want)));
    }
  }
  return folded;
}

TEST(FoldNormsTest, ScalesAndShiftsBecomePartOfTheFilter) {
  for (const Case& c : Cases()) {
    for (const bool norm : {false, true}) {
      GraphBuilder graph;
      const ValueId x = graph.Parameter("x", DType::kF32, c.data);
      ValueId y = AddConvolution(graph, c, x);
      const auto channels = [&](Shape shape, float least) {
        return graph.Constant(Noise(std::move(shape), least));
      };
      const int64_t n = c.channels();
      if (norm) {
        y = graph.Add("Add", {channels({1, n, 1, 1}, -2), y});
        y = graph.Add(
            "BatchNormInference",
            {y, channels({n}, -2), channels({n}, -2), channels({n}, -2), channels({n}, 0.1F)},
            {{"epsilon", 1e-3}});
      } else {
        y = graph.Add("Multiply", {y, channels({n, 1, 1}, -2)});
        y = graph.Add("Multiply", {graph.Add("Add", {y, channels({1, n, 1, 1}, -2)}),
                                   graph.Constant(Tensor::Scalar(0.5F))});
      }
      graph.Result("y", graph.Add("ReLU", {y}));
      const Graph folded = FoldedAlike(graph.Build(), Noise(c.data));
      EXPECT_EQ(CountOf(folded, "BatchNormInference") + CountOf(folded, "Multiply"), 0);
      EXPECT_EQ(CountOf(folded, "Add"), 1);
      EXPECT_EQ(CountOf(folded, c.op), 1);
    }
  }
}

// What others read stays as it is; a bias alone stays; so does a scale that is no number.
TEST(FoldNormsTest, LeavesWhatItCannotFold) {
  const Case c = {"Convolution", {4, 3, 3, 3}, {1, 3, 9, 10}};
  GraphBuilder graph;
  const ValueId x = graph.Parameter("x", DType::kF32, c.data);
  const ValueId scale = graph.Constant(Noise({1, 4, 1, 1}));
  const ValueId read = AddConvolution(graph, c, x);
  graph.Result("read", read);
  graph.Result("scaled", graph.Add("Multiply", {read, scale}));
  graph.Result("biased", graph.Add("Add", {AddConvolution(graph, c, x), scale}));
  // [4, 9, 1] has as many elements along the channels as along rows of the picture.
  const Case square = {"Convolution", {9, 3, 3, 3}, {1, 3, 9, 10}};
  graph.Result("by row", graph.Add("Multiply", {AddConvolution(graph, square, x),
                                                graph.Constant(Noise({9, 1}))}));
  const ValueId ones = graph.Constant(Tensor::Of<float>({4}, std::vector<float>{1, 1, 1, 1}));
  const ValueId none = graph.Constant(Tensor::Of<float>({4}, std::vector<float>{1, 0, 1, 1}));
  graph.Result("no number", graph.Add("BatchNormInference",
                                      {AddConvolution(graph, c, x), ones, ones, ones, none}));
  Graph built = graph.Build();
  auto info = InferGraph(built, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  const absl::StatusOr<bool> changed = FoldNorms(built, *info, {Operators()});
  EXPECT_TRUE(changed.ok() && !*changed);
}

}  // namespace
}  // namespace beamwright::ops
