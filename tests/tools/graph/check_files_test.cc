// `beamwright-graph check` on files that cannot be loaded: every layer or node in the way is listed
// at once, in bodies of loops and branches too, also behind others that are not known.

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"
#include "ops/graph/inference.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"
#include "tests/tools/graph/shell.h"
#include "tools/graph/check.h"

namespace beamwright::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_tools::Outcome;

const std::string kListed = "operator not supported: ";

int CountListed(const std::string& text) {
  int count = 0;
  for (size_t at = 0; (at = text.find(kListed, at)) != std::string::npos; at += kListed.size()) {
    ++count;
  }
  return count;
}

Outcome Check(const std::string& name, const std::string& content) {
  const std::string path = testing_tools::TempPath(name);
  testing_tools::WriteFile(path, content);
  return testing_tools::RunProgram({BEAMWRIGHT_GRAPH_PROGRAM, "check", path});
}

void ExpectListed(const Outcome& outcome, const std::vector<std::string>& nodes) {
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  for (const std::string& node : nodes) {
    EXPECT_THAT(outcome.output, HasSubstr(absl::StrCat(kListed, node, "\n")));
  }
  EXPECT_EQ(CountListed(outcome.output), static_cast<int>(nodes.size())) << outcome.output;
}

// A graph attribute with one node of a type and, perhaps, others.
std::string Branch(const std::string& attribute, const std::string& output,
                   const std::string& nodes) {
  return absl::StrCat("attribute { name: '", attribute, "' type: GRAPH g { output { name: '",
                      output, "' } ", nodes, " } } ");
}

// Whisper's clamp: every feature is at least the loudest of the whole batch less 8.
TEST(CheckFiles, AnEncoderThatMixesSourcesIsTold) {
  const std::string type =
      "type { tensor_type { elem_type: 1 shape { dim { dim_param: 'rows' } dim { dim_param: 'time' "
      "} dim { dim_value: 2 } } } }";
  const std::string text = absl::StrCat(
      "ir_version: 8 opset_import { version: 13 } graph { name: 'g' input { name: 'x' ", type,
      " } output { name: 'y' ", type,
      " } initializer { dims: 1 data_type: 1 float_data: 8 name: 'eight' } node { op_type: "
      "'ReduceMax' name: 'loudest' input: 'x' output: 'm' } node { op_type: 'Sub' input: 'm' "
      "input: 'eight' output: 'l' } node { op_type: 'Max' name: 'clamp' input: 'x' input: 'l' "
      "output: 'y' } }");
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  const Outcome outcome = Check("clamp.onnx", model.SerializeAsString());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              HasSubstr("as an encoder: sources are encoded one at a time, because rows of "
                        "ReduceMax 'loudest' cannot be separated"));
}

// Ids to one result with as many columns as the file says; with a state it is an encoder.
TEST(CheckFiles, AGraphThatMayBeATaggerSaysHowItIsServed) {
  const auto port = [](const std::string& name, int type, const std::string& last) {
    return absl::StrCat("name: '", name, "' type { tensor_type { elem_type: ", type,
                        " shape { dim { dim_param: 'rows' } dim { dim_param: 'time' } ", last,
                        "} } } ");
  };
  const auto text = [&](const std::string& more) {
    return absl::StrCat(
        "ir_version: 8 opset_import { version: 13 } graph { name: 'g' input { ", port("x", 7, ""),
        "} output { ", port("y", 1, "dim { dim_value: 2 } "), "} ", more,
        " initializer { dims: [3, 2] data_type: 1 float_data: [0, 1, 2, 3, 4, 5] name: 'table' } "
        "node { op_type: 'Gather' name: 'lookup' input: ['table', 'x'] output: 'e' } node { "
        "op_type: 'CumSum' name: 'back' input: ['e', 'one'] output: 'y' attribute { name: "
        "'reverse' type: INT i: 1 } } initializer { data_type: 7 int64_data: 1 name: 'one' } }");
  };
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text(""), &model));
  const Outcome tagger = Check("tagger.onnx", model.SerializeAsString());
  EXPECT_EQ(tagger.exit_code, 0) << tagger.errors << tagger.output;
  EXPECT_THAT(tagger.output, HasSubstr("encoder, or tagger with a label for each token"));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text(absl::StrCat("output { ", port("e", 1, "dim { dim_value: 2 } "), "}")), &model));
  const Outcome encoder = Check("encoder.onnx", model.SerializeAsString());
  EXPECT_EQ(encoder.exit_code, 0) << encoder.errors << encoder.output;
  EXPECT_THAT(encoder.output, ::testing::Not(HasSubstr("tagger")));
}

// Tools that edit graphs leave shapes behind that no longer hold; ONNX Runtime runs such files,
// with a warning. Types that contradict it refuses.
TEST(CheckFiles, ADeclaredShapeThatIsWrongIsPassedOver) {
  const std::string rows = "dim { dim_param: 'rows' } ";
  const std::string text = absl::StrCat(
      "ir_version: 8 opset_import { version: 13 } graph { name: 'g' input { name: 'x' type { "
      "tensor_type { elem_type: 1 shape { ",
      rows, "dim { dim_value: 2 } } } } } output { name: 'y' type { tensor_type { elem_type: 1 ",
      "shape { ", rows, "} } } } node { op_type: 'Neg' name: 'minus' input: 'x' output: 'y' } }");
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  const Outcome outcome = Check("rank.onnx", model.SerializeAsString());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              HasSubstr("can be loaded\n  warning: 'y': value is declared [?] but is "
                        "[?, 2]; the declared shape is passed over\n"));
  onnx::TypeProto::Tensor& type =
      *model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::INT64);
  const Outcome refused = Check("type.onnx", model.SerializeAsString());
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("'minus' (Neg): value is declared i64 but is f32"));
  // A value between nodes that is declared wrongly.
  type.set_elem_type(onnx::TensorProto::FLOAT);
  onnx::ValueInfoProto& between = *model.mutable_graph()->add_value_info();
  between = model.graph().input(0);
  between.set_name("m");
  between.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_value(7);
  model.mutable_graph()->mutable_node(0)->set_output(0, "m");
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type("Abs");
  node.add_input("m");
  node.add_output("y");
  EXPECT_THAT(Check("between.onnx", model.SerializeAsString()).output,
              HasSubstr("warning: 'm': value is declared [?, 7] but is [?, 2]; the declared shape "
                        "is passed over\n"));
}

// Operators that are not there and faults of others come together, by the file's own names.
TEST(CheckFiles, AllFaultsOfAnOnnxFile) {
  const auto floats = [](const std::string& name, const std::string& dims) {
    return absl::StrCat("input { name: '", name, "' type { tensor_type { elem_type: 1 shape { ",
                        dims, "} } } } ");
  };
  const std::string five = "dim { dim_value: 5 } ";
  const std::string text = absl::StrCat(
      "ir_version: 8 opset_import { version: 17 } graph { name: 'g' ", floats("x", five + five),
      floats("s", five + five + five),
      floats("w", "dim { dim_value: 1 } dim { dim_value: 12 } " + five),
      floats("r", "dim { dim_value: 1 } dim { dim_value: 12 } " + five),
      "node { op_type: 'Fancy' name: 'top' input: 'x' output: 'a' } "
      "node { op_type: 'Relu' name: 'behind' input: 'a' output: 'b' } "
      "node { op_type: 'Gelu' name: 'later' input: 'x' output: 'c' } "
      "node { op_type: 'Softmax' name: 'soft' input: 'x' output: 'd' "
      "attribute { name: 'axis' i: 7 type: INT } } "
      "node { op_type: 'LSTM' name: 'layer' input: 's' input: 'w' input: 'r' output: 'e' "
      "attribute { name: 'hidden_size' i: 3 type: INT } } "
      "output { name: 'b' } output { name: 'c' } output { name: 'd' } output { name: 'e' } }");
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  const Outcome outcome = Check("faults.onnx", model.SerializeAsString());
  ExpectListed(outcome, {"Fancy 'top'", "Gelu of opset 17 'later'"});
  EXPECT_THAT(outcome.output, HasSubstr("Softmax 'soft': axis 7"));
  EXPECT_THAT(outcome.output, HasSubstr("LSTM 'layer': body: LSTM 'layer': R: extent 5"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("'behind'")));
  // As a server reads it: all of it, too.
  const Outcome run = testing_tools::RunProgram(
      {BEAMWRIGHT_GRAPH_PROGRAM, "bench", testing_tools::TempPath("faults.onnx")});
  EXPECT_THAT(run.errors, HasSubstr("2 nodes have an unsupported operator: "));
  EXPECT_THAT(run.errors, HasSubstr("node 3 'soft' (Softmax): axis 7"));
  EXPECT_THAT(run.errors, HasSubstr("node 4 'layer' (LSTM): body: LSTM 'layer': R: extent 5"));
  EXPECT_THAT(run.errors, Not(HasSubstr("Cell")));
}

TEST(CheckFiles, OnnxNodesInBodiesAreListed) {
  const std::string type =
      "type { tensor_type { elem_type: 1 shape { dim { dim_param: 'rows' } dim { dim_value: 2 } } "
      "} "
      "}";
  const std::string scalar = "type { tensor_type { elem_type: 9 shape { } } }";
  const std::string text = absl::StrCat(
      "graph { input { name: 'x' ", type, " } input { name: 'yes' ", scalar,
      " } output { name: 'y' ", type,
      " } node { op_type: 'Fancy' name: 'top' input: 'x' output: 'a' } ",
      // Behind a node that is not known; one that is known, but needs what that hides, is not in
      // the way.
      "node { op_type: 'LeakyRelu' name: 'hidden' input: 'a' output: 'k' } "
      "node { op_type: 'If' name: 'branches' input: 'yes' output: 'b' ",
      Branch("then_branch", "t",
             "node { op_type: 'FancyThen' name: 'then' input: 'k' output: 't' }"),
      Branch("else_branch", "e",
             "node { op_type: 'Neg' input: 'a' output: 'n' } "
             "node { op_type: 'FancyElse' name: 'else' input: 'n' output: 'e' }"),
      "} node { op_type: 'Loop' name: 'loop' input: '' input: 'yes' input: 'b' output: 'y' "
      "attribute { name: 'body' type: GRAPH g { input { name: 'i' } input { name: 'c' } "
      "input { name: 's' } output { name: 'c' } output { name: 's2' } "
      "node { op_type: 'FancyInner' name: 'inner' input: 's' input: 'a' output: 's1' } "
      "node { op_type: 'If' name: 'deep' input: 'c' output: 's2' ",
      Branch("then_branch", "dt",
             "node { op_type: 'FancyDeep' name: 'deepest' input: 's1' output: 'dt' }"),
      Branch("else_branch", "s1", ""), "} } } } } opset_import { version: 17 } ir_version: 8");
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  ExpectListed(Check("bodies.onnx", model.SerializeAsString()),
               {"Fancy 'top'", "If 'branches', then branch: FancyThen 'then'",
                "If 'branches', else branch: FancyElse 'else'", "Loop 'loop': FancyInner 'inner'",
                "Loop 'loop': If 'deep', then branch: FancyDeep 'deepest'"});
}

std::string PortsOf(const char* tag, const std::vector<int>& ids) {
  std::string text = absl::StrCat("<", tag, ">");
  for (const int id : ids) {
    absl::StrAppend(
        &text, "<port id=\"", id, "\"",
        tag[0] == 'o' ? " precision=\"FP32\"><dim>2</dim></port>" : "><dim>2</dim></port>");
  }
  return absl::StrCat(text, "</", tag, ">");
}

std::string Layer(int id, const std::string& name, const std::string& type,
                  const std::string& inside) {
  return absl::StrCat("<layer id=\"", id, "\" name=\"", name, "\" type=\"", type,
                      "\" version=\"opset8\">", inside, "</layer>");
}

std::string Parameter(int id, const std::string& type, const std::string& shape) {
  return Layer(id, absl::StrCat("p", id), "Parameter",
               absl::StrCat("<data element_type=\"", type, "\" shape=\"", shape,
                            "\"/><output><port id=\"0\"/></output>"));
}

// One input, port 0; one output, port 1.
std::string Unary(int id, const std::string& name, const std::string& type) {
  return Layer(id, name, type, PortsOf("input", {0}) + PortsOf("output", {1}));
}

// parameter 0 -> layer 1 -> result 2.
std::string Chain(const std::string& layer) {
  return absl::StrCat(
      "<layers>", Parameter(0, "f32", "2"), layer, Layer(2, "r", "Result", PortsOf("input", {0})),
      "</layers><edges><edge from-layer=\"0\" from-port=\"0\" to-layer=\"1\" to-port=\"0\"/>"
      "<edge from-layer=\"1\" from-port=\"1\" to-layer=\"2\" to-port=\"0\"/></edges>");
}

std::string PortMap(const char* tag, int input_port, int output_port) {
  return absl::StrCat("<", tag, "><input external_port_id=\"", input_port,
                      "\" internal_layer_id=\"0\"/><output external_port_id=\"", output_port,
                      "\" internal_layer_id=\"2\"/></", tag, ">");
}

TEST(CheckFiles, LayersInBodiesAreListed) {
  const std::string branches = absl::StrCat(
      PortsOf("input", {0, 1}), PortsOf("output", {2}), PortMap("then_port_map", 1, 2),
      PortMap("else_port_map", 1, 2), "<then_body>", Chain(Unary(1, "then", "FancyThen")),
      "</then_body><else_body>", Chain(Unary(1, "else", "FancyElse")), "</else_body>");
  const std::string loop =
      absl::StrCat(PortsOf("input", {0}), PortsOf("output", {1}), PortMap("port_map", 0, 1),
                   "<body>", Chain(Unary(1, "inner", "FancyInner")), "</body>");
  const std::string xml = absl::StrCat(
      "<net name=\"n\" version=\"11\"><layers>", Parameter(0, "f32", "2"),
      Parameter(1, "boolean", ""), Unary(2, "top", "Fancy"), Layer(3, "branches", "If", branches),
      Layer(4, "loop", "TensorIterator", loop), Layer(5, "y", "Result", PortsOf("input", {0})),
      "</layers><edges>", "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"2\" to-port=\"0\"/>",
      "<edge from-layer=\"1\" from-port=\"0\" to-layer=\"3\" to-port=\"0\"/>",
      "<edge from-layer=\"2\" from-port=\"1\" to-layer=\"3\" to-port=\"1\"/>",
      "<edge from-layer=\"3\" from-port=\"2\" to-layer=\"4\" to-port=\"0\"/>",
      "<edge from-layer=\"4\" from-port=\"1\" to-layer=\"5\" to-port=\"0\"/>", "</edges></net>");
  ExpectListed(Check("bodies.xml", xml),
               {"Fancy 'top'", "If 'branches', then branch: FancyThen 'then'",
                "If 'branches', else branch: FancyElse 'else'",
                "TensorIterator 'loop': FancyInner 'inner'"});
}

using ::testing::HasSubstr;

// Of a Reshape of x [rows, length, 16] to the target.
std::string Found(const std::vector<int64_t>& target, bool special_zero = true,
                  int64_t length = -1) {
  testing_support::GraphBuilder builder;
  const auto x = builder.Parameter("x", DType::kF32, {-1, length, 16});
  builder.Result("y", builder.Add("Reshape", {x, builder.Ints(target)},
                                  {{"special_zero", special_zero}}, "view"));
  Graph graph = builder.Build();
  const auto info = InferGraph(graph, Operators());
  EXPECT_TRUE(info.ok()) << info.status();
  return FrozenReshape(graph);
}

TEST(FrozenReshape, NamesANumberThatAnOpenExtentMustGive) {
  EXPECT_THAT(Found({7, -1, 8}), HasSubstr("Reshape 'view' makes [7, ?, 8] of [?, ?, 16]"));
  EXPECT_THAT(Found({0, 7, 16}), HasSubstr("'view'"));
  EXPECT_THAT(Found({-1, 32}), HasSubstr("'view'"));
}

TEST(FrozenReshape, WhatIsTakenApartIsNone) {
  EXPECT_EQ(Found({0, 0, 2, 8}), "");
  EXPECT_EQ(Found({0, -1, 16}), "");
  EXPECT_EQ(Found({-1, 16}), "");
  EXPECT_EQ(Found({-1, 4, 4}), "");
  EXPECT_EQ(Found({0, -1}), "");
  EXPECT_EQ(Found({-1, 32}, true, 1), "");  // two rows of heads become one of both
}

}  // namespace

}  // namespace beamwright::ops
