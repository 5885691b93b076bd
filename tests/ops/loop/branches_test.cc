// If: which branch runs, what is known of its outputs before, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/loop/operators.h"
#include "tests/ops/loop/run_graph.h"
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

// One Parameter, through `op`.
Graph Unary(const std::string& op, DType dtype = DType::kF32) {
  GraphBuilder body;
  body.Result("y", body.Add(op, {body.Parameter("x", dtype, {-1})}));
  return body.Build();
}

// The elements at `indices`.
Graph Pick(std::vector<int64_t> indices) {
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {-1});
  body.Result("y", body.Add("Gather", {x, body.Ints(std::move(indices)), body.Int(0)}));
  return body.Build();
}

absl::StatusOr<std::vector<Tensor>> RunIf(Graph then_branch, Graph else_branch, bool condition,
                                          bool known) {
  GraphBuilder graph;
  const auto x = graph.Parameter("x", DType::kF32, {-1});
  std::vector<Tensor> inputs = {F32({2}, {-1, 4})};
  ValueId value = graph.Constant(Bool(condition));
  if (!known) {
    value = graph.Parameter("condition", DType::kBool, {});
    inputs.push_back(Bool(condition));
  }
  graph.Result("y", graph.If({value, x}, std::move(then_branch), std::move(else_branch)));
  return RunGraph(graph.Build(), inputs);
}

TEST(Branches, TheConditionChooses) {
  for (const bool known : {false, true}) {
    EXPECT_THAT(Floats(RunIf(Unary("Negative"), Unary("Abs"), true, known)->at(0)),
                ElementsAre(1, -4));
    EXPECT_THAT(Floats(RunIf(Unary("Negative"), Unary("Abs"), false, known)->at(0)),
                ElementsAre(1, 4));
  }
}

// The branch that is not taken may be one that fails.
TEST(Branches, OnlyTheTakenOneRuns) {
  EXPECT_TRUE(RunIf(Pick({1}), Pick({7}), true, false).ok());
  const auto failed = RunIf(Pick({1}), Pick({7}), false, false);
  EXPECT_THAT(ErrorOf(failed), HasSubstr("If 'if': else branch: Gather"));
  // Known never to be taken, it is not even looked at.
  EXPECT_TRUE(RunIf(Pick({1}), Unary("NoSuchOperator"), true, true).ok());
  EXPECT_THAT(ErrorOf(RunIf(Pick({1}), Unary("NoSuchOperator"), true, false)),
              HasSubstr("else branch: NoSuchOperator"));
}

TEST(Branches, ShapesAreWhatBothAllow) {
  const auto shape = [](Graph then_branch, Graph else_branch) {
    GraphBuilder builder;
    const auto condition = builder.Parameter("condition", DType::kBool, {1});
    const auto x = builder.Parameter("x", DType::kF32, {5});
    const auto y = builder.If({condition, x}, std::move(then_branch), std::move(else_branch));
    builder.Result("y", y);
    Graph graph = builder.Build();
    const auto info = InferGraph(graph, Operators());
    EXPECT_TRUE(info.ok()) << info.status();
    return graph.info(y).shape.ToString();
  };
  EXPECT_EQ(shape(Pick({0, 1}), Pick({2, 3})), "[2]");
  EXPECT_EQ(shape(Pick({0, 1}), Pick({2})), "[?]");
  GraphBuilder scalar;
  const auto x = scalar.Parameter("x", DType::kF32, {-1});
  scalar.Result("y", scalar.Add("Gather", {x, scalar.Int(0), scalar.Int(0)}));
  EXPECT_EQ(shape(Pick({0, 1}), scalar.Build()), "[...]");
  // Different at run time as well.
  EXPECT_THAT(Floats(RunIf(Pick({0}), Pick({1, 0}), false, false)->at(0)), ElementsAre(4, -1));
}

TEST(Branches, FaultsNameTheBranch) {
  GraphBuilder integer;
  const auto x = integer.Parameter("x", DType::kF32, {-1});
  integer.Result("y", integer.Add("Convert", {x}, {{"destination_type", std::string("i64")}}));
  EXPECT_THAT(ErrorOf(RunIf(Unary("Abs"), integer.Build(), true, false)),
              HasSubstr("output 0 is f32 from the then branch and i64 from the else branch"));
  EXPECT_THAT(ErrorOf(RunIf(Unary("Abs", DType::kI64), Unary("Abs"), true, false)),
              HasSubstr("then branch: input 1 (Parameter 'x') is declared i64 but is f32"));
  const auto error = [](void (*change)(If&)) {
    GraphBuilder builder;
    const auto condition = builder.Parameter("condition", DType::kBool, {});
    const auto value = builder.Parameter("x", DType::kF32, {2});
    builder.Result("y", builder.If({condition, value}, Unary("Abs"), Unary("Exp")));
    Graph graph = builder.Build();
    auto branches = std::make_shared<If>(*graph.nodes[2].branches);
    change(*branches);
    graph.nodes[2].branches = branches;
    return ErrorOf(RunGraph(graph, {Bool(true), F32({2}, {1, 2})}));
  };
  EXPECT_EQ(error([](If&) {}), "");
  EXPECT_THAT(error([](If& branches) { branches.condition_input = 1; }),
              HasSubstr("the condition is f32[2]; it must be one boolean"));
  EXPECT_THAT(error([](If& branches) { branches.condition_input = 5; }),
              HasSubstr("the condition is input 5, which has no value"));
  EXPECT_THAT(error([](If& branches) { branches.else_branch.inputs = {4}; }),
              HasSubstr("else branch: nothing feeds Parameter 'x'"));
  EXPECT_THAT(error([](If& branches) { branches.then_branch.inputs.clear(); }),
              HasSubstr("then branch: has 0 inputs for 1 Parameters"));
  EXPECT_THAT(error([](If& branches) { branches.then_branch.results = {3}; }),
              HasSubstr("output 0 is result 3; the branch has 1"));
  EXPECT_THAT(error([](If& branches) { branches.then_branch.results.clear(); }),
              HasSubstr("gives 0 of 1 outputs"));
}

// A branch inside a loop inside a branch; the loop's state decides.
TEST(Branches, NestWithLoops) {
  GraphBuilder keep;
  keep.Result("next", keep.Add("Add", {keep.Parameter("h", DType::kF32, {1}),
                                       keep.Parameter("x", DType::kF32, {1})}));
  GraphBuilder reset;
  reset.Parameter("h", DType::kF32, {1});
  reset.Result("next", reset.Parameter("x", DType::kF32, {1}));
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1});
  const auto h = body.Parameter("h", DType::kF32, {1});
  const auto limit = body.Constant(F32({1}, {5}));
  body.Result("next", body.If({body.Add("Less", {h, limit}), h, x}, keep.Build(), reset.Build()));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {Sliced(0, 0, 0), Carried(1, 1, 0)};
  loop.outputs = {Joined(0, 0, 0)};
  GraphBuilder then_branch;
  const auto xs = then_branch.Parameter("xs", DType::kF32, {-1});
  then_branch.Result("y", then_branch.Loop({xs, then_branch.Constant(F32({1}, {0}))}, loop, 1));
  GraphBuilder graph;
  const auto condition = graph.Parameter("condition", DType::kBool, {});
  const auto in = graph.Parameter("xs", DType::kF32, {-1});
  graph.Result("y", graph.If({condition, in}, then_branch.Build(), Unary("Abs")));
  const auto out = RunGraph(graph.Build(), {Bool(true), F32({5}, {2, 3, 1, 4, 2})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(Floats((*out)[0]), ElementsAre(2, 5, 1, 5, 2));
}

TEST(Branches, NestSixteenDeepAndNotDeeper) {
  const auto run = [](int depth) {
    Graph inner = Unary("Negative");
    for (int i = 1; i < depth; ++i) {
      GraphBuilder body;
      const auto x = body.Parameter("x", DType::kF32, {-1});
      const auto yes = body.Add("Greater", {body.Add("ReduceMax", {x, body.Int(0)}),
                                            body.Constant(Tensor::Scalar(-1e9f))});
      body.Result("y", body.If({yes, x}, inner, Unary("Abs")));
      inner = body.Build();
    }
    return RunIf(inner, Unary("Abs"), true, false);
  };
  EXPECT_THAT(Floats(run(16)->at(0)), ElementsAre(1, -4));
  EXPECT_THAT(ErrorOf(run(17)), HasSubstr("nested more than 16 deep"));
}

}  // namespace
}  // namespace beamwright::ops
