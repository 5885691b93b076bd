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
}  // namespace beamwright::ops
