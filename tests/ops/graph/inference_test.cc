#include "ops/graph/inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::Carried;
using testing_support::GraphBuilder;
using testing_support::Sliced;

std::string Error(Graph graph) {
  return std::string(InferGraph(graph, Operators()).status().message());
}

TEST(InferGraph, FoldsShapeArithmeticAndKeepsUnknownExtents) {
  GraphBuilder builder;
  const auto x = builder.Parameter("x", DType::kF32, {-1, 6});
  const auto two = builder.Add("Divide", {builder.Ints({6}), builder.Ints({3})});
  const auto pattern =
      builder.Add("Concat", {builder.Ints({0}), two, builder.Ints({-1})}, {{"axis", int64_t{0}}});
  const auto y = builder.Add("Reshape", {x, pattern}, {{"special_zero", true}});
  builder.Result("y", y);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(graph.info(y).shape, PartialShape(Shape{-1, 2, 3}));
  EXPECT_THAT(*ToInt64(info->constants[static_cast<size_t>(pattern.node)][0]),
              ::testing::ElementsAre(0, 2, -1));
}

TEST(InferGraph, NamesTheLayerAndWhatIsWrong) {
  {
    GraphBuilder builder;
    const auto x = builder.Parameter("x", DType::kF32, {2, 3});
    const auto y = builder.Parameter("y", DType::kF32, {4, 5});
    builder.Result("z", builder.Add("MatMul", {x, y}, {}, "product"));
    EXPECT_THAT(Error(builder.Build()), HasSubstr("MatMul 'product'"));
  }
  {
    GraphBuilder builder;
    const auto x = builder.Parameter("x", DType::kF32, {2});
    builder.Result("z", builder.Add("Frobnicate", {x}, {}, "what"));
    EXPECT_THAT(Error(builder.Build()),
                AllOf(HasSubstr("Frobnicate 'what'"), HasSubstr("not supported")));
  }
  {
    GraphBuilder builder;
    const auto x = builder.Parameter("x", DType::kF32, {2});
    builder.Result("z", builder.Add("SoftMax", {x}, {{"axes", int64_t{0}}}, "soft"));
    EXPECT_THAT(Error(builder.Build()),
                AllOf(HasSubstr("SoftMax 'soft'"), HasSubstr("'axes'"), HasSubstr("axis")));
  }
  {
    GraphBuilder builder;
    const auto x = builder.Parameter("x", DType::kF32, {2});
    const auto y = builder.Add("Tanh", {x}, {}, "tanh");
    builder.Result("z", y);
    Graph graph = builder.Build();
    graph.node(y.node).outputs[0].shape = PartialShape(Shape{3});
    EXPECT_THAT(Error(graph), AllOf(HasSubstr("Tanh 'tanh': output 0 is declared [3] but is [2]")));
    graph.node(y.node).outputs[0] = {DType::kI64, PartialShape(), {}};
    EXPECT_THAT(Error(graph), HasSubstr("declared i64 but is f32"));
  }
  {
    GraphBuilder builder;
    const auto x = builder.Parameter("x", DType::kF32, {2});
    builder.Result("z", builder.Add("Tanh", {{x.node, 4}}, {}, "tanh"));
    EXPECT_THAT(Error(builder.Build()), HasSubstr("input 0 reads output 4"));
  }
}

// Folding may not make a small file ask for a large amount of memory.
TEST(InferGraph, LeavesHugeConstantsUnfolded) {
  GraphBuilder builder;
  const auto one = builder.Constant(Tensor::Scalar(1.0f));
  const auto huge =
      builder.Add("Broadcast", {one, builder.Ints({1 << 20, 1 << 10})}, {{"mode", "numpy"}});
  builder.Result("huge", huge);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->constants[static_cast<size_t>(huge.node)][0].has_value());
}

Graph NestedLoops(int depth) {
  GraphBuilder builder;
  const auto x = builder.Parameter("x", DType::kF32, {1, 1});
  if (depth == 0) {
    builder.Result("y", x);
    return builder.Build();
  }
  Loop loop;
  loop.body = NestedLoops(depth - 1);
  loop.inputs = {Sliced(0, 0, 1)};
  loop.outputs = {testing_support::Last(0, 0)};
  builder.Result("y", builder.Loop({x}, loop, 1));
  return builder.Build();
}

TEST(InferGraph, BoundsTheNestingOfLoops) {
  Graph allowed = NestedLoops(kMaxLoopDepth);
  EXPECT_TRUE(InferGraph(allowed, Operators()).ok());
  EXPECT_THAT(Error(NestedLoops(kMaxLoopDepth + 1)), HasSubstr("nested more than 16 deep"));
}

TEST(InferGraph, BackEdgesKeepTheirType) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1, 1});
  const auto h = body.Parameter("h", DType::kI64, {1, 1});
  body.Result("next", x);
  body.Result("seen", h);
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 1), Carried(1, 1, 0)};
  loop.outputs = {testing_support::Last(0, 1)};
  GraphBuilder builder;
  const auto in = builder.Parameter("in", DType::kF32, {1, 4});
  const auto state = builder.Parameter("state", DType::kI64, {1, 1});
  builder.Result("out", builder.Loop({in, state}, loop, 1));
  EXPECT_THAT(
      Error(builder.Build()),
      HasSubstr("(body Parameter 'h'): the value of its back edge is declared i64 but is f32"));
}

}  // namespace

// What inference refuses, or leaves to a run, because a small file must not ask for much at load.

namespace {

using ::testing::HasSubstr;
using testing_support::GraphBuilder;

constexpr int64_t kMiB = 1 << 20;

int64_t FoldedBytes(const GraphInfo& info) {
  int64_t bytes = 0;
  for (const std::vector<Tensor>& outputs : info.constants) {
    for (const Tensor& output : outputs) {
      bytes += output.num_bytes();
    }
  }
  for (const auto& bodies : info.bodies) {
    for (const auto& body : bodies) {
      bytes += body == nullptr ? 0 : FoldedBytes(*body);
    }
  }
  return bytes;
}

GraphBuilder::Value Filled(GraphBuilder& builder, const std::vector<int64_t>& shape) {
  const auto zero = builder.Constant(Tensor::Scalar(0.0f));
  return builder.Add("Broadcast", {zero, builder.Ints(shape)}, {{"mode", std::string("numpy")}});
}

// A branch that hands its input to `inside` and returns what that makes.
template <typename Inside>
Graph Branch(Inside inside) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {-1});
  body.Result("y", inside(body, x));
  return body.Build();
}

TEST(InferenceLimits, NoShapeHasMoreThan2To48Elements) {
  const auto error = [](Shape left, Shape right) {
    GraphBuilder builder;
    const auto a = builder.Parameter("a", DType::kF32, std::move(left));
    const auto b = builder.Parameter("b", DType::kF32, std::move(right));
    builder.Result("y", builder.Add("Concat", {a, b}, {{"axis", int64_t{0}}}));
    Graph graph = builder.Build();
    return std::string(InferGraph(graph, Operators()).status().message());
  };
  EXPECT_EQ(error({int64_t{1} << 47, 1}, {int64_t{1} << 47, 1}), "");
  EXPECT_THAT(error({int64_t{1} << 47, 1}, {int64_t{1} << 48, 1}), HasSubstr("2^48"));
  // What is not known does not matter.
  EXPECT_THAT(error({int64_t{1} << 40, -1, int64_t{1} << 40}, {1, 1, int64_t{1} << 40}),
              HasSubstr("Parameter 'a': output 0: shape"));
  EXPECT_THAT(error({INT64_MAX, 0}, {INT64_MAX, 0}), HasSubstr("2^48"));
}

TEST(InferenceLimits, FoldingIsBoundedForAllBodiesTogether) {
  // Forty branches of 4 MiB each, made of nothing.
  GraphBuilder builder;
  const auto condition = builder.Parameter("c", DType::kBool, {});
  auto value = builder.Parameter("x", DType::kF32, {-1});
  for (int i = 0; i < 40; ++i) {
    const auto make = [](GraphBuilder& body, GraphBuilder::Value x) {
      const auto quarter = Filled(body, {kMiB / 4});
      return body.Add("Add", {x, body.Add("Concat", {quarter, quarter, quarter, quarter},
                                          {{"axis", int64_t{0}}})});
    };
    value = builder.If({condition, value}, Branch(make), Branch(make));
  }
  builder.Result("y", value);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_GT(FoldedBytes(*info), 16 * kMiB);
  EXPECT_LE(FoldedBytes(*info), 33 * kMiB);
}

TEST(InferenceLimits, ValuesThatWereFoldedDoNotAllowMore) {
  // Each body gets what was folded outside and would make it eight times as large.
  const auto eight_times = [](GraphBuilder& body, GraphBuilder::Value x) {
    return body.Add("Tile", {x, body.Ints({8})});
  };
  Graph inner = Branch(eight_times);
  for (int depth = 0; depth < 6; ++depth) {
    inner = Branch([&](GraphBuilder& body, GraphBuilder::Value x) {
      const auto yes = body.Constant(Tensor::Scalar(true));
      return body.If({yes, eight_times(body, x)}, inner, inner);
    });
  }
  GraphBuilder builder;
  const auto yes = builder.Constant(Tensor::Scalar(true));
  builder.Result("y", builder.If({yes, Filled(builder, {kMiB / 4})}, inner, inner));
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_LE(FoldedBytes(*info), 64 * kMiB);
}

TEST(InferenceLimits, WhatTakesLongIsLeftToARun) {
  GraphBuilder builder;
  const auto data = Filled(builder, {1, 1, 1 << 17});
  const auto filter = Filled(builder, {1, 1, 1 << 16});
  const auto large = builder.Add("Convolution", {data, filter});
  const auto small = builder.Add("Convolution", {data, Filled(builder, {1, 1, 3})});
  builder.Result("large", large);
  builder.Result("small", small);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->IsKnown(data.node));
  EXPECT_TRUE(info->IsKnown(small.node));
  EXPECT_FALSE(info->IsKnown(large.node));
  EXPECT_EQ(graph.info(large).shape, PartialShape(Shape{1, 1, (1 << 16) + 1}));
}

TEST(InferenceLimits, ShapeArithmeticIsFoldedEvenWhenMemoryIsUsedUp) {
  GraphBuilder builder;
  auto value = builder.Parameter("x", DType::kF32, {-1});
  for (int i = 0; i < 200; ++i) {
    value = builder.Add("Add", {value, Filled(builder, {kMiB / 4})});
  }
  const auto sum = builder.Add("Add", {builder.Ints({2}), builder.Ints({3})});
  builder.Result("y", builder.Add("Broadcast", {builder.Constant(Tensor::Scalar(1.0f)), sum},
                                  {{"mode", std::string("numpy")}}));
  builder.Result("z", value);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->IsKnown(sum.node));
  EXPECT_LE(FoldedBytes(*info), 33 * kMiB);
}

TEST(InferenceLimits, BodiesAreCounted) {
  const auto error = [](int count) {
    GraphBuilder builder;
    const auto condition = builder.Parameter("c", DType::kBool, {});
    auto value = builder.Parameter("x", DType::kF32, {-1});
    const auto relu = [](GraphBuilder& body, GraphBuilder::Value x) {
      return body.Add("ReLU", {x});
    };
    for (int i = 0; i < count; ++i) {
      value = builder.If({condition, value}, Branch(relu), Branch(relu));
    }
    builder.Result("y", value);
    Graph graph = builder.Build();
    return std::string(InferGraph(graph, Operators()).status().message());
  };
  EXPECT_EQ(error(500), "");
  EXPECT_THAT(error(501), HasSubstr("more than 1000 bodies"));
}

}  // namespace

}  // namespace beamwright::ops
