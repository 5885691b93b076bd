// TensorIterator and Loop: what port maps and back edges become.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

using fixture::Content;
using fixture::Find;
using fixture::Layer;
using fixture::Net;
using fixture::Parameter;
using fixture::Parse;
using fixture::Port;
using fixture::Result;
using fixture::Unary;
using ::testing::ElementsAre;

using In = LoopInput::Kind;
using Out = LoopOutput::Kind;

constexpr size_t kExampleWeightBytes = 3'149'864;

// The document's example 2; "..." stands for attributes that it does not show.
std::string ExampleTwo() {
  return absl::StrReplaceAll(
      fixture::ReadTestFile("tests/ops/import/testdata/tensor_iterator_example_2.xml.txt"),
      {{" ...>", ">"}});
}

std::string ExampleWeights() {
  std::string weights(kExampleWeightBytes, '\0');
  const int64_t squeezed[] = {1, -1};
  const int64_t unsqueezed[] = {1, 1, -1};
  std::memcpy(weights.data(), squeezed, sizeof(squeezed));
  std::memcpy(weights.data() + 3'149'840, unsqueezed, sizeof(unsqueezed));
  for (size_t i = 16; i < 3'149'840; i += 4) {
    const float value = static_cast<float>(i);
    std::memcpy(weights.data() + i, &value, sizeof(value));
  }
  return weights;
}

void ExpectExampleLoop(const Node& node) {
  ASSERT_EQ(node.op, "Loop");
  ASSERT_EQ(node.inputs.size(), 3u);
  EXPECT_EQ(node.outputs[0].shape, PartialShape(Shape{1, 25, 256}));
  const Loop& loop = *node.loop;
  ASSERT_EQ(loop.inputs.size(), 3u);
  EXPECT_EQ(loop.inputs[0].kind, In::kSliced);
  EXPECT_EQ(loop.inputs[0].axis, 1);
  EXPECT_EQ(loop.inputs[0].start, 0);
  EXPECT_EQ(loop.inputs[0].end, -1);
  EXPECT_EQ(loop.inputs[0].stride, 1);
  EXPECT_EQ(loop.inputs[0].part_size, 1);
  EXPECT_FALSE(loop.inputs[0].drop_axis);
  // Results in the order of the file: layers 8 (cell state), 9 (hidden state), 12 (output).
  EXPECT_EQ(loop.inputs[1].kind, In::kCarried);
  EXPECT_EQ(loop.inputs[1].body_parameter, 1);
  EXPECT_EQ(loop.inputs[1].back_edge, 1);
  EXPECT_EQ(loop.inputs[2].kind, In::kCarried);
  EXPECT_EQ(loop.inputs[2].body_parameter, 2);
  EXPECT_EQ(loop.inputs[2].back_edge, 0);
  ASSERT_EQ(loop.outputs.size(), 1u);
  EXPECT_EQ(loop.outputs[0].kind, Out::kConcatenated);
  EXPECT_EQ(loop.outputs[0].axis, 1);
  EXPECT_FALSE(loop.outputs[0].reversed);
  EXPECT_EQ(loop.outputs[0].body_result, 2);
  EXPECT_EQ(loop.trip_count_input, -1);

  const Node& cell = Find(loop.body, "LSTMCell_7");
  EXPECT_EQ(*cell.attributes.Int("hidden_size", 0), 256);
  EXPECT_TRUE(*cell.attributes.Bool("weights_joined", false));
  const auto source = [&](int result) {
    const ValueId id = loop.body.node(loop.body.results[static_cast<size_t>(result)]).inputs[0];
    return absl::StrCat(loop.body.node(id.node).name, ":", id.output);
  };
  EXPECT_EQ(source(0), "LSTMCell_7:1");
  EXPECT_EQ(source(1), "LSTMCell_7:0");
  EXPECT_EQ(source(2), "Reshape_11:0");
  EXPECT_THAT(Find(loop.body, "Const_10").constant.span<int64_t>(), ElementsAre(1, 1, -1));
  const Tensor& weights = Find(loop.body, "Const_5").constant;
  EXPECT_EQ(weights.shape(), (Shape{1024, 768}));
  EXPECT_EQ(weights.span<float>().front(), 16.f);
  EXPECT_EQ(weights.span<float>().back(), 3'145'740.f);
  EXPECT_EQ(Find(loop.body, "Const_6").constant.span<float>().front(), 3'145'744.f);
}

TEST(LoopImportTest, DocumentExampleAlone) {
  const absl::StatusOr<Graph> graph = Parse(ExampleTwo(), ExampleWeights());
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->parameters.size(), 3u);
  EXPECT_EQ(PortName(*graph, graph->parameters[0]), "input_0");
  EXPECT_EQ(PortName(*graph, graph->results[0]), "output_3");
  const ValueInfo& x = graph->node(graph->parameters[0]).outputs[0];
  EXPECT_EQ(x.dtype, DType::kF32);
  EXPECT_EQ(x.shape, PartialShape(Shape{1, 25, 512}));
  ExpectExampleLoop(Find(*graph, "TensorIterator_0"));
}

TEST(LoopImportTest, DocumentExampleInANet) {
  const std::string layer =
      absl::StrReplaceAll(ExampleTwo(), {{"<layer type=\"TensorIterator\">",
                                          "<layer id=\"7\" name=\"ti\" type=\"TensorIterator\">"}});
  const auto parameter = [](int id, const std::string& dims) {
    return Text(Layer{id, "", "Parameter", "", {}, {Port(0, dims, "precision=\"FP32\"")}});
  };
  const std::string xml =
      absl::StrCat("<net><layers>", parameter(0, "1,25,512"), parameter(1, "1,256"),
                   parameter(2, "1,256"), layer, Text(Result(9, "out")), "</layers><edges>",
                   fixture::Edges("0.0-7.0, 1.0-7.1, 2.0-7.2, 7.3-9.0"), "</edges></net>");
  const absl::StatusOr<Graph> graph = Parse(xml, ExampleWeights());
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectExampleLoop(Find(*graph, "ti"));
  EXPECT_EQ(Find(*graph, "ti").loop->inputs[2].external_id, 2);
}

TEST(LoopImportTest, DocumentExampleNeedsItsWholeWeights) {
  std::string weights = ExampleWeights();
  weights.pop_back();
  const absl::StatusOr<Graph> graph = Parse(ExampleTwo(), weights);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), ::testing::HasSubstr("Const_10"));
}

// Body: Parameters 0 and 1, each straight to a Result, 10 and 11.
std::string PassThroughBody() {
  return Content(
      {Parameter(0, "p0", "..."), Parameter(1, "p1", "..."), Result(10, "r0"), Result(11, "r1")},
      "0.0-10.0, 1.0-11.0");
}

// A net around one loop layer whose ports are given.
absl::StatusOr<Graph> ParseLoop(Layer loop, int num_inputs, const std::vector<std::string>& dims) {
  std::vector<Layer> layers;
  std::string edges;
  for (int i = 0; i < num_inputs; ++i) {
    layers.push_back(Parameter(100 + i, absl::StrCat("x", i), "..."));
    loop.inputs.push_back(Port(i, ""));
    absl::StrAppend(&edges, 100 + i, ".0-0.", i, ", ");
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int port = num_inputs + static_cast<int>(i);
    loop.outputs.push_back(Port(port, dims[i], "precision=\"FP32\""));
    layers.push_back(Result(200 + port, absl::StrCat("out", i)));
    absl::StrAppend(&edges, "0.", port, "-", 200 + port, ".0, ");
  }
  layers.push_back(loop);
  return Parse(Net(layers, edges));
}

TEST(LoopImportTest, SlicesBackwardAndInParts) {
  const absl::StatusOr<Graph> graph = ParseLoop(
      fixture::Loop(0, "tensoriterator",
                    "<input external_port_id=\"0\" internal_layer_id=\"0\" axis=\"-2\" "
                    "start=\"-1\" end=\"0\" stride=\"-2\"/>"
                    "<input external_port_id=\"0\" internal_layer_id=\"1\" part_size=\"3\" "
                    "axis=\"0\" end=\"5\" start=\"3\"/>"
                    "<output external_port_id=\"1\" internal_layer_id=\"11\"/>"
                    "<output external_port_id=\"2\" internal_layer_id=\"10\" axis=\"1\" "
                    "stride=\"-2\" part_size=\"2\"/>"
                    "<output external_port_id=\"3\" internal_layer_id=\"10\"/>",
                    "", PassThroughBody()),
      1, {"", "", ""});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Loop& loop = *Find(*graph, "loop").loop;
  ASSERT_EQ(loop.inputs.size(), 2u) << "both rules of external port 0 must stay";
  EXPECT_EQ(loop.inputs[0].axis, -2);
  EXPECT_EQ(loop.inputs[0].start, -1);
  EXPECT_EQ(loop.inputs[0].end, 0);
  EXPECT_EQ(loop.inputs[0].stride, -2);
  EXPECT_EQ(loop.inputs[0].part_size, 2);
  EXPECT_EQ(loop.inputs[1].input, 0);
  EXPECT_EQ(loop.inputs[1].start, 3);
  EXPECT_EQ(loop.inputs[1].end, 5);
  EXPECT_EQ(loop.inputs[1].part_size, 3);
  EXPECT_GT(loop.inputs[1].stride, 0);
  ASSERT_EQ(loop.outputs.size(), 3u);
  EXPECT_EQ(loop.outputs[0].kind, Out::kLastValue);
  EXPECT_EQ(loop.outputs[0].output, 0);
  EXPECT_EQ(loop.outputs[0].body_result, 1);
  EXPECT_EQ(loop.outputs[1].kind, Out::kConcatenated);
  EXPECT_TRUE(loop.outputs[1].reversed);
  EXPECT_EQ(loop.outputs[1].part_size, 2);
}

TEST(LoopImportTest, BackEdgesMaySwapStates) {
  const absl::StatusOr<Graph> graph = ParseLoop(
      fixture::Loop(
          0, "TensorIterator",
          "<input external_port_id=\"1\" internal_layer_id=\"0\"/>"
          "<input external_port_id=\"0\" internal_layer_id=\"1\"/>"
          "<output external_port_id=\"2\" internal_layer_id=\"10\"/>",
          "<edge from-layer=\"11\" to-layer=\"0\"/><edge from-layer=\"10\" to-layer=\"1\"/>",
          PassThroughBody()),
      2, {""});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Loop& loop = *Find(*graph, "loop").loop;
  EXPECT_EQ(loop.inputs[0].kind, In::kCarried);
  EXPECT_EQ(loop.inputs[0].input, 1);
  EXPECT_EQ(loop.inputs[0].body_parameter, 0);
  EXPECT_EQ(loop.inputs[0].back_edge, 1);
  EXPECT_EQ(loop.inputs[1].back_edge, 0);
}

// What slices nothing runs as often as the declared output says, else once.
TEST(LoopImportTest, IterationsWithoutSlices) {
  const auto trips = [](const std::string& dims, const std::string& slicing) -> int64_t {
    const absl::StatusOr<Graph> graph = ParseLoop(
        fixture::Loop(0, "TensorIterator",
                      absl::StrCat("<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
                                   "<input external_port_id=\"0\" internal_layer_id=\"1\"/>"
                                   "<output external_port_id=\"1\" internal_layer_id=\"10\" ",
                                   slicing, "/>"),
                      "", PassThroughBody()),
        1, {dims});
    EXPECT_TRUE(graph.ok()) << graph.status();
    const Node& node = Find(*graph, "loop");
    EXPECT_EQ(node.loop->trip_count_input, 1);
    EXPECT_EQ(node.inputs.size(), 2u);
    return graph->node(node.inputs[1].node).constant.span<int64_t>()[0];
  };
  EXPECT_EQ(trips("2,12,3", "axis=\"1\" stride=\"3\""), 4);
  EXPECT_EQ(trips("2,12,3", "axis=\"-1\""), 3);
  EXPECT_EQ(trips("2,-1,3", "axis=\"1\""), 1);
  EXPECT_EQ(trips("", "axis=\"1\""), 1);
  EXPECT_EQ(trips("2,12,3", ""), 1);
}

TEST(LoopImportTest, LoopHasTripCountConditionAndIterationNumber) {
  const std::string body = Content({Parameter(5, "state", "..."),
                                    {3,
                                     "iteration",
                                     "Parameter",
                                     "element_type=\"i32\" shape=\"\"",
                                     {},
                                     {Port(0, "", "precision=\"I32\"")}},
                                    {4,
                                     "flag",
                                     "Parameter",
                                     "element_type=\"boolean\" shape=\"\"",
                                     {},
                                     {Port(0, "", "precision=\"BOOL\"")}},
                                    Result(7, "state_out"),
                                    Result(8, "again"),
                                    Result(9, "count")},
                                   "5.0-7.0, 4.0-8.0, 3.0-9.0");
  const absl::StatusOr<Graph> graph =
      ParseLoop(fixture::Loop(0, "Loop",
                              "<output external_port_id=\"-1\" internal_layer_id=\"8\" "
                              "purpose=\"execution_condition\"/>"
                              "<input external_port_id=\"2\" internal_layer_id=\"5\"/>"
                              "<input external_port_id=\"-1\" internal_layer_id=\"3\" "
                              "purpose=\"current_iteration\"/>"
                              "<input external_port_id=\"1\" internal_layer_id=\"4\"/>"
                              "<output external_port_id=\"3\" internal_layer_id=\"9\" axis=\"0\"/>"
                              "<output external_port_id=\"4\" internal_layer_id=\"7\"/>",
                              "<edge from-layer=\"7\" to-layer=\"5\"/>", body),
                3, {"-1", ""});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Node& node = Find(*graph, "loop");
  EXPECT_EQ(node.inputs.size(), 3u) << "a Loop brings its own trip count";
  const Loop& loop = *node.loop;
  EXPECT_EQ(loop.trip_count_input, 0);
  EXPECT_EQ(loop.condition_input, 1);
  EXPECT_EQ(loop.condition_result, 1);
  ASSERT_EQ(loop.inputs.size(), 3u);
  EXPECT_EQ(loop.inputs[0].kind, In::kCarried);
  EXPECT_EQ(loop.inputs[0].input, 2);
  EXPECT_EQ(loop.inputs[1].kind, In::kIteration);
  EXPECT_EQ(loop.inputs[1].body_parameter, 1);
  EXPECT_EQ(loop.inputs[2].kind, In::kInvariant);
  EXPECT_EQ(loop.inputs[2].input, 1);
  ASSERT_EQ(loop.outputs.size(), 2u);
  EXPECT_EQ(loop.outputs[0].kind, Out::kConcatenated);
}

TEST(LoopImportTest, LoopsMayNest) {
  const auto rules =
      "<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
      "<output external_port_id=\"1\" internal_layer_id=\"10\"/>";
  Layer inner =
      fixture::Loop(5, "TensorIterator", rules, "",
                    Content({Parameter(0, "q", "..."), Unary(1, "deep", "Exp"), Result(10, "r")},
                            "0.0-1.0, 1.1-10.0"));
  inner.inputs = {Port(0, "")};
  inner.outputs = {Port(1, "", "precision=\"FP32\"")};
  const absl::StatusOr<Graph> graph = ParseLoop(
      fixture::Loop(
          0, "TensorIterator", rules, "",
          Content({Parameter(0, "p", "..."), inner, Result(10, "r")}, "0.0-5.0, 5.1-10.0")),
      1, {""});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Loop& outer = *Find(*graph, "loop").loop;
  EXPECT_EQ(Find(Find(outer.body, "loop").loop->body, "deep").op, "Exp");
}

}  // namespace
}  // namespace beamwright::ops
