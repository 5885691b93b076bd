#include "tools/graph/show.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tools/graph/ports.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node Make(const std::string& op, const std::string& name, std::vector<ValueId> inputs,
          size_t outputs) {
  Node node;
  node.op = op;
  node.name = name;
  node.inputs = std::move(inputs);
  node.outputs.resize(outputs);
  return node;
}

TEST(PortNamesTest, RepeatedNamesAreNumbered) {
  Graph graph;
  for (const char* name : {"x", "x#2", "x", "y", "x"}) {
    graph.parameters.push_back(static_cast<int>(graph.nodes.size()));
    graph.nodes.push_back(Make("Parameter", name, {}, 1));
  }
  EXPECT_THAT(UniquePortNames(graph, graph.parameters), ElementsAre("x", "x#2", "x#3", "y", "x#4"));
}

TEST(ShowTest, ConstantsThatShareMemoryCountOnce) {
  const Tensor shared = Tensor::Zeros(DType::kF32, {3});
  Graph body;
  body.nodes.push_back(Make("Constant", "again", {}, 1));
  body.nodes[0].constant = shared.Reshaped({1, 3});
  Graph graph;
  graph.nodes.push_back(Make("Constant", "c", {}, 1));
  graph.nodes[0].constant = shared;
  graph.nodes.push_back(Make("Constant", "d", {}, 1));
  graph.nodes[1].constant = Tensor::Zeros(DType::kI64, {2});
  graph.nodes.push_back(Make("Loop", "l", {}, 0));
  auto loop = std::make_shared<Loop>();
  loop->body = body;
  graph.nodes[2].loop = loop;
  const ConstantTotals totals = CountConstants(graph);
  EXPECT_EQ(totals.tensors, 2);
  EXPECT_EQ(totals.elements, 5);
  EXPECT_EQ(totals.bytes, 28);
}

TEST(ShowTest, LoopsAndBranchesShowTheirRules) {
  testing_support::GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {2});
  body.Result("next", body.Add("Add", {x, body.Parameter("h", DType::kF32, {2})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Scanned(0, 0, 1), testing_support::Carried(1, 1, 0)};
  loop.outputs = {testing_support::Stacked(0, 0, 1), testing_support::Last(1, 0)};
  loop.items = Loop::Items::kHeld;
  loop.lengths_input = 2;
  testing_support::GraphBuilder then_branch;
  const auto a = then_branch.Parameter("a", DType::kF32, {2});
  const auto b = then_branch.Parameter("b", DType::kF32, {2});
  const auto c = then_branch.Parameter("c", DType::kI64, {2});
  const auto out = then_branch.Loop({a, b, c}, loop, 2);
  then_branch.Result("all", out);
  testing_support::GraphBuilder else_branch;
  for (const char* name : {"d", "e", "f"}) {
    const auto value = else_branch.Parameter(name, DType::kF32, {2});
    if (*name == 'e') {
      else_branch.Result("same", value);
    }
  }
  testing_support::GraphBuilder graph;
  std::vector<ValueId> inputs;
  for (const char* name : {"condition", "p", "q", "r"}) {
    inputs.push_back(graph.Parameter(name, DType::kF32, {2}));
  }
  graph.Result("y", graph.If(inputs, then_branch.Build(), else_branch.Build()));
  const Graph built = graph.Build();
  const std::string text = ShowText(built, {});
  for (const char* line :
       {"      input 0: which branch runs\n", "      then branch:\n", "        input 1 -> 'a'\n",
        "        result 'all' -> output 0\n", "batch items past their length hold their states\n",
        "input 2: length of each batch item\n",
        "input 0 (port 0) -> body 'x': slices of axis 1, elements 0 to -1, forward, parts of 1, "
        "axis dropped\n",
        "input 1 (port 1) -> body 'h': state, later the back edge from body result 'next'\n",
        "body result 'next' -> output 0: stacked along the new axis 1\n",
        "body result 'next' -> output 1: value of the last iteration\n", "      else branch:\n",
        "        input 2 -> 'e'\n", "        result 'same' -> output 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line)) << text;
  }
  const std::string json = ShowJson(built, {});
  for (const char* piece : {"\"condition_input\": 0", "\"then\": {", "\"else\": {",
                            "\"items\": \"held\"", "\"lengths_input\": 2"}) {
    EXPECT_THAT(json, HasSubstr(piece));
  }
}

TEST(ShowTest, NotesStandBehindTheirNodes) {
  Graph graph;
  graph.nodes.push_back(Make("Parameter", "x", {}, 1));
  graph.nodes.push_back(Make("Tanh", "t\x1b[31m", {{0, 0}}, 1));
  ShowOptions options;
  options.note = [](const Graph& shown, int node) {
    return shown.node(node).op == "Tanh" ? std::string("scope row") : std::string();
  };
  EXPECT_THAT(ShowText(graph, options), HasSubstr("1 Tanh 't\\x1b[31m' (0) ?[...]  # scope row\n"));
  EXPECT_THAT(ShowJson(graph, options), HasSubstr("\"note\": \"scope row\""));
}

}  // namespace

// What nodes cost, against counts made by hand.

namespace {

using testing_support::GraphBuilder;
using Value = GraphBuilder::Value;

struct Case {
  NodeCost cost;
  std::string text;
};

template <typename Build>
Case Cost(Build build) {
  GraphBuilder builder;
  const Value value = build(builder);
  builder.Result("out", value);
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  const NodeCost cost = CostOf(graph, *info, value.node);
  return {cost, ToText(cost)};
}

Value Weight(GraphBuilder& graph, Shape shape) {
  return graph.Constant(Tensor::Zeros(DType::kF32, std::move(shape)));
}

TEST(NodeCost, AProductReadsItsWeightOnceAndMultipliesEachRow) {
  const Case fixed = Cost([](GraphBuilder& graph) {
    return graph.Add("MatMul", {graph.Parameter("a", DType::kF32, {3, 5}), Weight(graph, {5, 7})});
  });
  EXPECT_EQ(fixed.cost.multiply_adds, 3 * 5 * 7);
  EXPECT_EQ(fixed.cost.weight_bytes, 4 * 5 * 7);
  EXPECT_EQ(fixed.cost.activation_bytes, 4 * (3 * 5 + 3 * 7));
  EXPECT_FALSE(fixed.cost.open);
  EXPECT_EQ(fixed.text, "105 multiply-adds, 140 bytes of weights, 144 bytes of activations");
  const Case open = Cost([](GraphBuilder& graph) {
    return graph.Add("MatMul", {graph.Parameter("a", DType::kF32, {5, -1}), Weight(graph, {5, 7})},
                     {{"transpose_a", true}});
  });
  EXPECT_EQ(open.cost.multiply_adds, 5 * 7) << "of one row";
  EXPECT_TRUE(open.cost.open);
}

TEST(NodeCost, ACellMultipliesWithBothItsWeights) {
  const Case cell = Cost([](GraphBuilder& graph) {
    const Value h = graph.Parameter("h", DType::kF32, {-1, 4});
    return graph.Add("GRUCell",
                     {graph.Parameter("x", DType::kF32, {-1, 6}), h, Weight(graph, {12, 6}),
                      Weight(graph, {12, 4}), Weight(graph, {12})},
                     {{"hidden_size", int64_t{4}}});
  });
  EXPECT_EQ(cell.cost.multiply_adds, 12 * 6 + 12 * 4);
  EXPECT_EQ(cell.cost.weight_bytes, 4 * (12 * 6 + 12 * 4 + 12));
  EXPECT_EQ(cell.cost.activation_bytes, 4 * (6 + 4 + 4));
}

TEST(NodeCost, OfATableOnlyTheRowsThatAreTakenAreRead) {
  const Case gather = Cost([](GraphBuilder& graph) {
    return graph.Add(
        "Gather", {Weight(graph, {1000, 8}), graph.Parameter("i", DType::kI64, {2}), graph.Int(0)});
  });
  EXPECT_EQ(gather.cost.multiply_adds, 0);
  EXPECT_EQ(gather.cost.activation_bytes, 2 * 8 + 4 * 2 * 8);
  EXPECT_EQ(gather.cost.weight_bytes, 8);  // the axis
}

TEST(NodeCost, WhatIsKnownAtLoadCostsNothing) {
  const Case constant = Cost([](GraphBuilder& graph) {
    return graph.Add("MatMul", {Weight(graph, {3, 5}), Weight(graph, {5, 7})});
  });
  EXPECT_EQ(constant.text, "");
  const Case huge = Cost([](GraphBuilder& graph) {
    const int64_t large = int64_t{1} << 31;
    return graph.Add("Add", {graph.Parameter("a", DType::kF32, {large, 1}),
                             graph.Parameter("b", DType::kF32, {1, 1 << 16})});
  });
  EXPECT_GT(huge.cost.activation_bytes, int64_t{1} << 48);
}

}  // namespace

}  // namespace beamwright::ops
