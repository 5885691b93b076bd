// What a sound file becomes.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

using fixture::Find;
using fixture::Layer;
using fixture::Net;
using fixture::Parameter;
using fixture::Parse;
using fixture::Port;
using fixture::Result;
using fixture::Unary;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) {
    ops.push_back(node.op);
  }
  return ops;
}

Layer Const(int id, const std::string& name, const std::string& data) {
  return {id, name, "Const", data, {}, {Port(0, "", "")}};
}

// x (file order: last) -> ReLU -> Result, with layers that lead nowhere.
std::string SmallNet(const std::string& attributes) {
  return Net({Result(7, "second"), Unary(3, "act", "relu"), Result(5, "first"),
              Unary(9, "unused", "NoSuchOperator"), Parameter(11, "b", "2"),
              Parameter(1, "a", "1, ?,3..8, -1,25")},
             "1.0-3.0, 3.1-5.0, 1.0-9.0, 11.0-7.0", attributes);
}

TEST(OpenVinoIrTest, KeepsOrderOfPortsAndDropsWhatLeadsNowhere) {
  for (const char* attributes : {"version=\"10\"", "version=\"11\"", ""}) {
    const absl::StatusOr<Graph> graph = Parse(SmallNet(attributes));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->name, "m");
    EXPECT_THAT(Ops(*graph), ElementsAre("Parameter", "Result", "Parameter", "ReLU", "Result"));
    ASSERT_EQ(graph->parameters.size(), 2u);
    EXPECT_EQ(graph->node(graph->parameters[0]).name, "b");
    EXPECT_EQ(graph->node(graph->parameters[1]).name, "a");
    ASSERT_EQ(graph->results.size(), 2u);
    EXPECT_EQ(graph->node(graph->results[0]).name, "second");
    EXPECT_EQ(graph->node(graph->results[1]).name, "first");
    const ValueInfo& a = graph->node(graph->parameters[1]).outputs[0];
    EXPECT_EQ(a.dtype, DType::kF32);
    EXPECT_EQ(a.shape, PartialShape(Shape{1, -1, -1, -1, 25}));
  }
}

TEST(OpenVinoIrTest, NodesFollowTheirInputs) {
  const absl::StatusOr<Graph> graph =
      Parse(Net({Result(0, "r"), Unary(1, "c", "Tanh"), Unary(2, "b", "Exp"), Unary(3, "a", "Log"),
                 Parameter(4, "x", "2")},
                "4.0-3.0, 3.1-2.0, 2.1-1.0, 1.1-0.0"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    for (const ValueId input : graph->nodes[i].inputs) {
      EXPECT_LT(input.node, static_cast<int>(i));
    }
  }
  EXPECT_EQ(Find(*graph, "c").inputs[0].node, 2);
}

TEST(OpenVinoIrTest, ReadsShapesOfParameters) {
  const struct {
    const char* text;
    PartialShape shape;
  } cases[] = {{"", PartialShape(Shape{})},
               {"...", PartialShape()},
               {"?", PartialShape(Shape{-1})},
               {"..5,3..,4..4", PartialShape(Shape{-1, -1, 4})},
               {"0", PartialShape(Shape{0})}};
  for (const auto& c : cases) {
    const absl::StatusOr<Graph> graph =
        Parse(Net({Parameter(0, "x", c.text), Result(1, "r")}, "0.0-1.0"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->info({0, 0}).shape, c.shape) << c.text;
  }
}

TEST(OpenVinoIrTest, ReadsTensorNames) {
  Layer x = Parameter(0, "layer", "2");
  x.outputs = {Port(0, "2", "precision=\"FP32\" names=\"plain,with\\,comma, blank\"")};
  Layer bare = Unary(1, "bare", "Tanh");
  Layer named = Result(2, "layer");
  named.attributes = "version=\"opset1\" output_names=\"result_name\"";
  const absl::StatusOr<Graph> graph =
      Parse(Net({x, bare, named, Result(3, "other")}, "0.0-1.0, 1.1-2.0, 0.0-3.0"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->info({0, 0}).names, ElementsAre("plain", "with,comma", "blank"));
  EXPECT_EQ(PortName(*graph, graph->parameters[0]), "plain");
  EXPECT_EQ(PortName(*graph, graph->results[0]), "result_name");
  EXPECT_EQ(PortName(*graph, graph->results[1]), "plain");
}

TEST(OpenVinoIrTest, AttributesGetTheKindsOfTheTable) {
  Layer product{1,
                "product",
                "MATMUL",
                "transpose_b=\"True\" transpose_a=\"0\"",
                {Port(0, ""), Port(1, "")},
                {Port(2, "")}};
  Layer cell{2,
             "cell",
             "GRUCell",
             "hidden_size=\" 4\" activations=\"Sigmoid, tanh\" activations_alpha=\"\" "
             "activations_beta=\"0.5,1e-3\" clip=\"0.30000001192092896\" "
             "linear_before_reset=\"1\" unheard_of=\"7\"",
             {Port(0, "")},
             {Port(1, "")}};
  Layer slice{3,
              "slice",
              "StridedSlice",
              "begin_mask=\"1, 0\" end_mask=\"\"",
              {Port(0, "")},
              {Port(1, "")}};
  Layer shape{4, "shape", "Reshape", "", {Port(0, "")}, {Port(1, "")}};
  Layer top{5, "soft", "softmax", "", {Port(0, "")}, {Port(1, "")}};
  Layer divide{6,
               "divide",
               "Divide",
               "auto_broadcast=\"NUMPY\" m_pythondiv=\"true\"",
               {Port(0, "")},
               {Port(1, "")}};
  const absl::StatusOr<Graph> graph =
      Parse(Net({Parameter(0, "x", "2"), product, cell, slice, shape, top, divide, Result(9, "r")},
                "0.0-1.0, 0.0-1.1, 1.2-2.0, 2.1-3.0, 3.1-4.0, 4.1-5.0, 5.1-6.0, 6.1-9.0"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Attributes& p = Find(*graph, "product").attributes;
  EXPECT_EQ(*p.Bool("transpose_b", false), true);
  EXPECT_EQ(*p.Bool("transpose_a", true), false);
  const Attributes& c = Find(*graph, "cell").attributes;
  EXPECT_EQ(*c.Int("hidden_size", 0), 4);
  EXPECT_THAT(*c.Strings("activations", {}), ElementsAre("sigmoid", "tanh"));
  EXPECT_THAT(*c.Floats("activations_alpha", {1}), IsEmpty());
  EXPECT_THAT(*c.Floats("activations_beta", {}), ElementsAre(0.5, 1e-3));
  EXPECT_EQ(*c.Float("clip", 0), 0.30000001192092896);
  EXPECT_EQ(*c.Bool("linear_before_reset", false), true);
  EXPECT_EQ(*c.String("unheard_of", ""), "7") << "must stay, so that validation can refuse it";
  EXPECT_THAT(*Find(*graph, "slice").attributes.Ints("begin_mask", {}), ElementsAre(1, 0));
  EXPECT_EQ(*Find(*graph, "shape").attributes.Bool("special_zero", false), true);
  EXPECT_EQ(*Find(*graph, "soft").attributes.Int("axis", -1), 1);
  EXPECT_EQ(Find(*graph, "soft").op, "SoftMax");
  EXPECT_EQ(*Find(*graph, "divide").attributes.String("auto_broadcast", ""), "numpy");
  EXPECT_FALSE(Find(*graph, "divide").attributes.Has("m_pythondiv"));
}

// Version 8 keeps the batch axes that version 5 makes into one.
TEST(OpenVinoIrTest, OldGatherNdJoinsItsBatchAxes) {
  for (const auto& [version, joins] : {std::pair("opset5", true), std::pair("opset8", false)}) {
    Layer gather = Unary(1, "gather", "GatherND");
    gather.data = "batch_dims=\"2\"";
    gather.attributes = absl::StrCat("version=\"", version, "\"");
    const absl::StatusOr<Graph> graph =
        Parse(Net({Parameter(0, "x", "2"), gather, Result(2, "r")}, "0.0-1.0, 1.1-2.0"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Attributes& attributes = Find(*graph, "gather").attributes;
    EXPECT_EQ(*attributes.Int("batch_dims", 0), 2);
    EXPECT_EQ(attributes.Has("joins_batch"), joins) << version;
  }
}

TEST(OpenVinoIrTest, ConstantsAreCopiedFromAnyOffset) {
  // f32 at the odd offset 1, twice; the same bytes as u8; booleans that are not 0 or 1; f16.
  std::string weights(32, '\0');
  const float values[] = {1.5f, -2, 3e-30f};
  std::memcpy(weights.data() + 1, values, sizeof(values));
  weights[20] = 2;
  weights[22] = '\xff';
  weights[25] = 0x3c;  // f16 1.0 from 24 on
  const std::vector<Layer> layers = {
      Const(0, "w", "element_type=\"f32\" shape=\"3,1\" offset=\"1\" size=\"12\""),
      Const(1, "w2", "size=\"12\" shape=\"1, 3\" offset=\"1\" element_type=\"f32\""),
      Const(2, "bytes", "element_type=\"u8\" shape=\"12\" offset=\"1\" size=\"12\""),
      Const(3, "flags", "element_type=\"boolean\" shape=\"3\" offset=\"20\" size=\"3\""),
      Const(4, "half", "element_type=\"f16\" shape=\"\" offset=\"24\" size=\"2\""),
      Const(5, "none", "element_type=\"i64\" shape=\"0,3\" offset=\"99\" size=\"0\""),
      {6,
       "wide",
       "Convert",
       "destination_type=\"f32\"",
       {Port(0, "")},
       {Port(1, "", "precision=\"FP32\"")}},
      Result(10, "r0"),
      Result(11, "r1"),
      Result(12, "r2"),
      Result(13, "r3"),
      Result(14, "r4"),
      Result(15, "r5")};
  const absl::StatusOr<Graph> graph = Parse(
      Net(layers, "0.0-10.0, 1.0-11.0, 2.0-12.0, 3.0-13.0, 4.0-6.0, 6.1-14.0, 5.0-15.0"), weights);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Tensor& w = Find(*graph, "w").constant;
  EXPECT_EQ(w.shape(), (Shape{3, 1}));
  EXPECT_THAT(w.span<float>(), ElementsAre(1.5f, -2, 3e-30f));
  EXPECT_EQ(Find(*graph, "w2").constant.bytes(), w.bytes()) << "equal constants share a copy";
  EXPECT_EQ(Find(*graph, "w2").constant.shape(), (Shape{1, 3}));
  EXPECT_EQ(std::memcmp(Find(*graph, "bytes").constant.bytes(), weights.data() + 1, 12), 0);
  EXPECT_THAT(Find(*graph, "flags").constant.span<bool>(), ElementsAre(true, false, true));
  EXPECT_EQ(Find(*graph, "half").constant.rank(), 0);
  EXPECT_EQ(ToFloat(*Find(*graph, "half").constant.data<Half>()), 1);
  EXPECT_EQ(Find(*graph, "none").constant.shape(), (Shape{0, 3}));
  EXPECT_EQ(Find(*graph, "wide").op, "Convert");
  EXPECT_EQ(*Find(*graph, "wide").attributes.String("destination_type", ""), "f32");
}

TEST(OpenVinoIrTest, LstmWeightsAreJoinedWhereTheFifthInputIsTheBias) {
  const auto parse = [](const std::string& fifth, const std::string& attributes) {
    Layer cell{1,
               "cell",
               "LSTMCell",
               "hidden_size=\"2\" weights_format=\"fico\" input_forget=\"0\"",
               {Port(0, ""), Port(1, ""), Port(2, ""), Port(3, ""), Port(4, fifth)},
               {Port(5, ""), Port(6, "")},
               "",
               attributes};
    const absl::StatusOr<Graph> graph =
        Parse(Net({Parameter(0, "x", "2"), cell, Result(2, "r")},
                  "0.0-1.0, 0.0-1.1, 0.0-1.2, 0.0-1.3, 0.0-1.4, 1.6-2.0"));
    EXPECT_TRUE(graph.ok()) << graph.status();
    const Attributes& attributes_read = Find(*graph, "cell").attributes;
    EXPECT_FALSE(attributes_read.Has("weights_format"));
    EXPECT_FALSE(attributes_read.Has("input_forget"));
    EXPECT_EQ(Find(*graph, "r").inputs[0], (ValueId{1, 1}));
    return *attributes_read.Bool("weights_joined", false);
  };
  EXPECT_TRUE(parse("8", "version=\"opset4\""));
  EXPECT_FALSE(parse("8,2", ""));
  EXPECT_TRUE(parse("", ""));
  EXPECT_FALSE(parse("", "version=\"opset4\""));
}

TEST(OpenVinoIrTest, UnknownLayersCanBeKeptForShowing) {
  Layer odd = Unary(1, "odd", "Einsum");
  odd.data = "equation=\"ij-&gt;ji\"";
  ImportOptions options;
  options.keep_unknown_layers = true;
  const absl::StatusOr<Graph> graph =
      ParseOpenVinoIr(Net({Parameter(0, "x", "2"), odd, Result(2, "r")}, "0.0-1.0, 1.1-2.0"),
                      absl::NotFoundError("none"), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Find(*graph, "odd").op, "Einsum");
  EXPECT_EQ(*Find(*graph, "odd").attributes.String("equation", ""), "ij->ji");
}

TEST(OpenVinoIrTest, ReadsThroughCommentsDoctypesAndUnknownChildren) {
  std::string xml = Net({Parameter(0, "x", "2"), Result(1, "r")}, "0.0-1.0");
  xml.insert(
      xml.find("<net"),
      "<!DOCTYPE net [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;\">]>\n<!-- x -->");
  xml.insert(xml.find("<layers>"), "<rt_info><info name=\"layers\"/></rt_info><meta_data/>");
  xml.insert(xml.find("</layers>"), "<rt_info>&b;</rt_info>");
  const absl::StatusOr<Graph> graph = Parse(xml);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.size(), 2u);
}

}  // namespace
}  // namespace beamwright::ops
