#include "tools/graph/show.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
}  // namespace beamwright::ops
