#include "ops/tools/show.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/tools/json.h"
#include "ops/tools/port_names.h"
#include "ops/tools/printable.h"

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

TEST(PrintableTest, NothingReachesATerminalAsACommand) {
  EXPECT_EQ(Printable("a\nb\x1b[31m\x7f"), "a\\nb\\x1b[31m\\x7f");
  EXPECT_EQ(Printable("'\xc3\xa4' \xc2\x9b\xc2\xa0\xc2"), "'\xc3\xa4' \\u009b\xc2\xa0\xc2");
}

TEST(JsonWriterTest, EscapesAndNests) {
  JsonWriter json;
  json.BeginObject();
  json.Key("text").String("a\"\\\n\x01\xc3\xa4\xff\xed\xa0\x80");
  json.Key("list").BeginArray().Int(-5).Bool(true).Null().Double(0.5).EndArray();
  json.Key("none").BeginObject().EndObject();
  json.Key("infinite").Double(1e308 * 10);
  json.EndObject();
  EXPECT_EQ(json.text(),
            "{\n \"text\": \"a\\\"\\\\\\u000a\\u0001\xc3\xa4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "\xEF\xBF\xBD\",\n \"list\": [\n  -5,\n  true,\n  null,\n  0.5\n ],\n \"none\": {},\n"
            " \"infinite\": null\n}");
}

}  // namespace
}  // namespace beamwright::ops
