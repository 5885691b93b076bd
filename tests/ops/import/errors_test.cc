// What is wrong with a file, and how the reader says so.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

using fixture::Content;
using fixture::Layer;
using fixture::Net;
using fixture::Parameter;
using fixture::Parse;
using fixture::Port;
using fixture::Result;
using fixture::Unary;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

void ExpectError(const absl::StatusOr<Graph>& graph, absl::StatusCode code,
                 const std::vector<std::string>& pieces) {
  ASSERT_FALSE(graph.ok()) << "expected: " << pieces[0];
  EXPECT_EQ(graph.status().code(), code) << graph.status();
  for (const std::string& piece : pieces) {
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(piece));
  }
}

// x -> Tanh 't' -> r, in which a test replaces text.
absl::StatusOr<Graph> Changed(const std::string& from, const std::string& to) {
  const std::string xml =
      Net({Parameter(0, "x", "2"), Unary(1, "t", "Tanh"), Result(2, "r")}, "0.0-1.0, 1.1-2.0");
  EXPECT_THAT(xml, HasSubstr(from));
  return Parse(absl::StrReplaceAll(xml, {{from, to}}));
}

TEST(IrErrorsTest, Document) {
  ExpectError(Parse("<net><layers>"), kInvalid, {"not well-formed XML", "line 1"});
  ExpectError(Parse("<net>\n<layers>\n</net>"), kInvalid, {"not well-formed XML", "line 3"});
  ExpectError(Parse(""), kInvalid, {"not well-formed XML"});
  ExpectError(Parse("<html/>"), kInvalid, {"root element is <html>", "<net>"});
  ExpectError(Parse("<net version=\"11\"/>"), kInvalid, {"<net> has no layers"});
  ExpectError(Parse("<layer type=\"LSTMCell\"/>"), kInvalid, {"TensorIterator", "'LSTMCell'"});
  ExpectError(Parse(std::string(kMaxIrXmlBytes + 1, ' ')), kInvalid, {"33554433 bytes", "at most"});
}

TEST(IrErrorsTest, Versions) {
  for (const char* version : {"9", "7", "2", "12", "0", "-11"}) {
    ExpectError(Changed("version=\"11\"", absl::StrCat("version=\"", version, "\"")),
                kUnimplemented,
                {absl::StrCat("IR version ", version, " is not supported; 10 and 11 are")});
  }
  ExpectError(Changed("version=\"11\"", "version=\"eleven\""), kInvalid, {"'version'", "'eleven'"});
}

TEST(IrErrorsTest, Layers) {
  ExpectError(Changed("id=\"1\" name=\"t\"", "id=\"0\" name=\"t\""), kInvalid,
              {"layer 0 't' (Tanh)", "layer 0 'x' (Parameter) has the same id"});
  ExpectError(Changed("id=\"1\" name=\"t\"", "name=\"t\""), kInvalid, {"layer 't'", "'id'"});
  ExpectError(Changed("id=\"1\" name=\"t\"", "id=\"1x\" name=\"t\""), kInvalid, {"'id'", "'1x'"});
  ExpectError(Changed("id=\"1\" name=\"t\"", "id=\"99999999999999999999\" name=\"t\""), kInvalid,
              {"'99999999999999999999' is not an integer"});
  ExpectError(Changed("type=\"Tanh\"", ""), kInvalid, {"layer 1 't' has no type"});
  ExpectError(Changed("name=\"t\"", absl::StrCat("name=\"", std::string(2000, 'n'), "\"")),
              kInvalid, {"layer 1", "1024 bytes"});
  ExpectError(Changed("shape=\"2\"", "shape=\"2,,3\""), kInvalid,
              {"layer 0 'x' (Parameter)", "extent ''"});
  ExpectError(Changed("shape=\"2\"", "shape=\"-2\""), kInvalid, {"extent '-2'"});
  ExpectError(Changed("shape=\"2\"", "shape=\"5..3\""), kInvalid, {"'5..3' is not a range"});
  ExpectError(Changed("shape=\"2\"", "shape=\"99999999999,99999999999\""), kInvalid, {"2^48"});
  ExpectError(Changed("element_type=\"f32\"", "element_type=\"i4\""), kInvalid,
              {"layer 0 'x' (Parameter)", "unknown element type 'i4'"});
  ExpectError(Changed("element_type=\"f32\"", "element_type=\"i64\""), kInvalid,
              {"element_type is i64", "precision f32"});
  ExpectError(Changed("<port id=\"1\" precision=\"FP32\">", "<port precision=\"FP32\">"), kInvalid,
              {"layer 1 't' (Tanh): output", "'id'"});
  ExpectError(Changed("<port id=\"1\" precision=\"FP32\">", "<port id=\"1\" precision=\"F33\">"),
              kInvalid, {"layer 1 't' (Tanh): output: port 1", "'F33'"});
  ExpectError(Changed("<port id=\"1\" precision=\"FP32\">",
                      "<port id=\"1\"/><port id=\"1\" precision=\"FP32\"><dim>x</dim>"),
              kInvalid, {"layer 1 't' (Tanh): output: two ports have the id 1"});
  ExpectError(Changed("<port id=\"1\" precision=\"FP32\">", "<port id=\"1\"><dim>x</dim>"),
              kInvalid, {"layer 1 't' (Tanh): output: port 1", "'x'"});
  std::string dims;
  for (int i = 0; i < 33; ++i) {
    absl::StrAppend(&dims, "<dim>1</dim>");
  }
  ExpectError(Changed("<port id=\"1\" precision=\"FP32\">", "<port id=\"1\">" + dims), kInvalid,
              {"rank 33", "at most 32"});
}

TEST(IrErrorsTest, Attributes) {
  const auto with = [](const std::string& type, const std::string& data) {
    Layer layer = Unary(1, "op", type);
    layer.data = data;
    return Parse(Net({Parameter(0, "x", "2"), layer, Result(2, "r")}, "0.0-1.0, 1.1-2.0"));
  };
  ExpectError(with("Concat", "axis=\"one\""), kInvalid,
              {"layer 1 'op' (Concat)", "attribute 'axis'", "'one' is not an integer"});
  ExpectError(with("MatMul", "transpose_a=\"2\""), kInvalid, {"'transpose_a'", "true nor false"});
  ExpectError(with("Clamp", "min=\"nan\""), kInvalid, {"'min'", "'nan' is not a number"});
  ExpectError(with("StridedSlice", "begin_mask=\"1,,0\""), kInvalid, {"'begin_mask'", "''"});
  ExpectError(with("Clamp", "min=\"1\" min=\"2\""), kInvalid, {"'min' is given twice"});
  ExpectError(with("LSTMCell", "weights_format=\"ifco\""), kUnimplemented,
              {"layer 1 'op' (LSTMCell)", "weights_format 'ifco'", "fico is"});
}

TEST(IrErrorsTest, Edges) {
  const std::string edge = "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"1\" to-port=\"0\"/>";
  const auto with = [&](const std::string& replacement) { return Changed(edge, replacement); };
  ExpectError(with(""), kInvalid, {"layer 1 't' (Tanh): input port 0 is not connected"});
  ExpectError(with(edge + edge), kInvalid,
              {"edge from layer 0 port 0 to layer 1 port 0", "layer 1 't' (Tanh) input port 0",
               "already has an edge, from layer 0 'x' (Parameter)"});
  ExpectError(with(fixture::Edges("7.0-1.0")), kInvalid, {"there is no layer 7"});
  ExpectError(with(fixture::Edges("0.0-7.0")), kInvalid, {"there is no layer 7"});
  ExpectError(with(fixture::Edges("0.5-1.0")), kInvalid,
              {"layer 0 'x' (Parameter) has no output port 5"});
  ExpectError(with(fixture::Edges("0.0-1.5")), kInvalid,
              {"layer 1 't' (Tanh) has no input port 5"});
  ExpectError(with(fixture::Edges("0.0-1.x")), kInvalid, {"'to-port'", "'x'"});
  ExpectError(with("<edge from-layer=\"0\"/>"), kInvalid, {"<edge> has no attribute 'from-port'"});
}

TEST(IrErrorsTest, Cycles) {
  Layer sum{3, "sum", "Add", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}};
  ExpectError(Parse(Net({Parameter(0, "x", "2"), Unary(1, "t", "Tanh"), Unary(2, "u", "Exp"), sum,
                         Result(4, "r")},
                        "0.0-3.0, 3.2-1.0, 1.1-2.0, 2.1-3.1, 3.2-4.0")),
              kInvalid, {"is part of a cycle", "layer"});
  ExpectError(Parse(Net({Unary(1, "self", "Tanh")}, "1.1-1.0")), kInvalid,
              {"layer 1 'self' (Tanh) is part of a cycle"});
  // Behind the cycle, not in it.
  const absl::StatusOr<Graph> behind =
      Parse(Net({Unary(5, "behind", "Exp"),
                 Unary(1, "self", "Tanh"),
                 {2, "two", "Add", "", {Port(0, ""), Port(1, "")}, {Port(2, "")}}},
                "2.2-5.0, 2.2-2.0, 1.1-2.1, 2.2-1.0"));
  ASSERT_FALSE(behind.ok());
  EXPECT_THAT(std::string(behind.status().message()), ::testing::Not(HasSubstr("behind")));
}

TEST(IrErrorsTest, StructuralLayers) {
  ExpectError(Changed("<port id=\"0\" precision=\"FP32\"></port></output>", "</output>"), kInvalid,
              {"no output port 0"});
  Layer no_type = Parameter(0, "x", "2");
  no_type.data = "";
  no_type.outputs = {Port(0, "2")};
  ExpectError(Parse(Net({no_type, Result(1, "r")}, "0.0-1.0")), kInvalid,
              {"layer 0 'x' (Parameter)", "no element type"});
  Layer contradiction = Parameter(0, "x", "2,?");
  contradiction.outputs = {Port(0, "3,1", "precision=\"FP32\"")};
  ExpectError(Parse(Net({contradiction, Result(1, "r")}, "0.0-1.0")), kInvalid,
              {"shape is [2, ?], the port's [3, 1]"});
  Layer twice = Result(1, "r");
  twice.inputs.push_back(Port(1, ""));
  ExpectError(Parse(Net({Parameter(0, "x", "2"), twice}, "0.0-1.0, 0.0-1.1")), kInvalid,
              {"layer 1 'r' (Result)", "has 2 inputs"});
}

TEST(IrErrorsTest, Constants) {
  const auto with = [](const std::string& data, const std::string& port = Port(0, "")) {
    return Net({{3, "w", "Const", data, {}, {port}}, Result(1, "r")}, "3.0-1.0");
  };
  const std::string weights(100, 'w');
  const std::string who = "layer 3 'w' (Const)";
  const std::string sound = "element_type=\"f32\" shape=\"5\" offset=\"80\" size=\"20\"";
  ASSERT_TRUE(Parse(with(sound), weights).ok());
  ExpectError(Parse(with(sound)), absl::StatusCode::kNotFound,
              {who, "needs the weights file", "no such file"});
  ExpectError(Parse(with(sound), weights.substr(1)), kInvalid,
              {who, "bytes from 80, 20 of them", "outside the weights file of 99 bytes"});
  ExpectError(Parse(with("element_type=\"f32\" shape=\"6\" offset=\"0\" size=\"20\""), weights),
              kInvalid, {who, "size is 20 bytes", "f32[6] needs 24"});
  ExpectError(Parse(with("element_type=\"f32\" shape=\"4\" offset=\"0\" size=\"20\""), weights),
              kInvalid, {who, "size is 20 bytes", "f32[4] needs 16"});
  // OpenVINO writes one byte for a constant without elements.
  EXPECT_TRUE(
      Parse(with("element_type=\"f32\" shape=\"0\" offset=\"0\" size=\"1\""), weights).ok());
  ExpectError(Parse(with("element_type=\"f32\" shape=\"0\" offset=\"0\" size=\"2\""), weights),
              kInvalid, {who, "size is 2 bytes", "f32[0] needs 0"});
  ExpectError(
      Parse(with("element_type=\"f32\" shape=\"1\" offset=\"9223372036854775807\" size=\"4\""),
            weights),
      kInvalid, {who, "outside the weights file"});
  ExpectError(Parse(with("element_type=\"f32\" shape=\"1\" offset=\"4\" "
                         "size=\"9223372036854775807\""),
                    weights),
              kInvalid, {who, "size is 9223372036854775807 bytes; f32[1] needs 4"});
  ExpectError(Parse(with("element_type=\"f32\" shape=\"1\" offset=\"-4\" size=\"4\""), weights),
              kInvalid, {who, "offset -4"});
  ExpectError(Parse(with("element_type=\"f32\" shape=\"1\" offset=\"4\""), weights), kInvalid,
              {who, "no attribute 'size'"});
  ExpectError(Parse(with("element_type=\"f32\" shape=\"?\" offset=\"4\" size=\"4\""), weights),
              kInvalid, {who, "must be known"});
  ExpectError(Parse(with("element_type=\"u1\" shape=\"8\" offset=\"4\" size=\"1\""), weights),
              kInvalid, {who, "'u1'"});
  ExpectError(Parse(with("offset=\"4\" size=\"4\""), weights), kInvalid, {who, "no element type"});
  ExpectError(Parse(with("", Port(0, "2", "precision=\"FP32\"")), weights), kInvalid,
              {who, "no <data>"});
}

TEST(IrErrorsTest, OverlappingConstantsCannotMultiplyMemory) {
  std::vector<Layer> layers;
  std::string edges;
  for (int i = 0; i < 40; ++i) {
    layers.push_back(
        {i,
         absl::StrCat("c", i),
         "Const",
         absl::StrCat("element_type=\"u8\" shape=\"1000\" size=\"1000\" offset=\"", i, "\""),
         {},
         {Port(0, "")}});
    layers.push_back(Result(100 + i, ""));
    absl::StrAppend(&edges, i, ".0-", 100 + i, ".0, ");
  }
  ExpectError(Parse(Net(layers, edges), std::string(1100, 'x')), kInvalid,
              {"layer 4 'c4' (Const)", "4 times the weights file"});
}

TEST(IrErrorsTest, AllUnknownLayersAreListed) {
  Layer loop =
      fixture::Loop(5, "TensorIterator",
                    "<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
                    "<output external_port_id=\"1\" internal_layer_id=\"2\"/>",
                    "",
                    Content({Parameter(0, "p", "2"), Unary(1, "inner", "FooCell"), Result(2, "r")},
                            "0.0-1.0, 1.1-2.0"));
  loop.inputs = {Port(0, "")};
  loop.outputs = {Port(1, "")};
  Layer first = Unary(1, "first", "BarCell");
  first.attributes = "version=\"opset7\"";
  ExpectError(
      Parse(Net({Parameter(0, "x", "2"), first, loop, Unary(6, "last", "Einstein"), Result(9, "r")},
                "0.0-1.0, 1.1-5.0, 5.1-6.0, 6.1-9.0")),
      kUnimplemented,
      {"3 layers have an unsupported type", "layer 1 'first' (BarCell) of opset7",
       "layer 5 'loop' (TensorIterator): body: layer 1 'inner' (FooCell)",
       "layer 6 'last' (Einstein)"});
}

// One message for all that is wrong: what cannot be read, what cannot be inferred, what is not
// known. What hangs on a fault is judged by what the file declares of it.
TEST(IrErrorsTest, AllFaultsAreToldAtOnce) {
  Layer softmax = Unary(2, "weights", "SoftMax");
  softmax.data = "axis=\"7\"";
  Layer reads_bad = Unary(3, "behind", "SoftMax");
  reads_bad.data = "axis=\"9\"";
  Layer hard = Unary(4, "hard", "Relu");
  hard.data = "slope=\"1\"";
  Layer bad_attribute = Unary(5, "attribute", "SoftMax");
  bad_attribute.data = "axis=\"x\"";
  Layer fine = Unary(6, "fine", "SoftMax");
  fine.data = "axis=\"1\"";
  for (Layer* const layer : {&softmax, &reads_bad, &hard, &bad_attribute, &fine}) {
    layer->outputs = {Port(1, "2,3", "precision=\"FP32\"")};
  }
  const Layer odd = Unary(7, "odd", "Odd");
  const Layer behind_odd = Unary(8, "behind odd", "Tanh");
  const auto graph = Parse(
      Net({Parameter(0, "x", "2,3"), softmax, reads_bad, hard, bad_attribute, fine, odd, behind_odd,
           Result(20, "a"), Result(21, "b"), Result(22, "c"), Result(23, "d")},
          "0.0-2.0, 2.1-3.0, 3.1-6.0, 6.1-20.0, 0.0-4.0, 4.1-21.0, 0.0-5.0, 5.1-22.0, 0.0-7.0, "
          "7.1-8.0, 8.1-23.0"));
  ExpectError(graph, kUnimplemented,
              {"1 layer has an unsupported type: layer 7 'odd' (Odd); ",
               "layer 5 'attribute' (SoftMax): ", "SoftMax 'weights': axis 7",
               "SoftMax 'behind': axis 9", "Relu 'hard': attribute 'slope'"});
  EXPECT_THAT(std::string(graph.status().message()), Not(HasSubstr("'fine'")));
  EXPECT_THAT(std::string(graph.status().message()), Not(HasSubstr("'behind odd'")));
}

// A .bin file of something else is reported once, not for every constant.
TEST(IrErrorsTest, WeightsThatDoNotFitAreToldOnce) {
  std::vector<Layer> layers;
  std::string edges;
  for (int i = 0; i < 4; ++i) {
    layers.push_back(
        {i,
         absl::StrCat("c", i),
         "Const",
         absl::StrCat("element_type=\"u8\" shape=\"10\" size=\"10\" offset=\"", 10 * i, "\""),
         {},
         {Port(0, "")}});
    layers.push_back(Result(100 + i, ""));
    absl::StrAppend(&edges, i, ".0-", 100 + i, ".0, ");
  }
  const auto graph = Parse(Net(layers, edges), "short");
  ExpectError(graph, kInvalid, {"layer 0 'c0' (Const): bytes from 0"});
  EXPECT_THAT(std::string(graph.status().message()), Not(HasSubstr("'c1'")));
}

TEST(IrErrorsTest, ManyUnknownLayersAreCounted) {
  std::vector<Layer> layers = {Parameter(0, "x", "2")};
  std::string edges;
  for (int i = 1; i <= 60; ++i) {
    layers.push_back(Unary(i, "u", "Odd"));
    absl::StrAppend(&edges, i - 1, i == 1 ? ".0-" : ".1-", i, ".0, ");
  }
  layers.push_back(Result(99, "r"));
  ExpectError(Parse(Net(layers, edges + "60.1-99.0")), kUnimplemented,
              {"60 layers have", "layer 50 'u' (Odd); and 10 more"});
}

TEST(IrErrorsTest, WeightsFileIsMissedOnlyWhereItIsNeeded) {
  EXPECT_TRUE(Changed("name=\"t\"", "name=\"t\"").ok());
}

TEST(IrErrorsTest, Files) {
  const absl::StatusOr<Graph> absent = ReadOpenVinoIr("/nonexistent/model.xml");
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("/nonexistent/model.xml"));
}

TEST(IrErrorsTest, DocumentsThatTakeMuchMemoryAreRefused) {
  std::string many = "<net>";
  for (int i = 0; i < 1'000'000; ++i) {
    many += "<a/>";
  }
  ExpectError(Parse(many + "</net>"), kInvalid, {"too many elements and attributes"});
  std::string attributes = "<net";
  for (int i = 0; i < 1'500'000; ++i) {
    attributes += " a=''";
  }
  ExpectError(Parse(attributes + "/>"), kInvalid, {"too many elements and attributes"});
  // Blanks between elements are not texts; texts are.
  ExpectError(Parse("<net>" + std::string(20 << 20, ' ') + "</net>"), kInvalid, {"no layers"});
  std::string texts = "<net>";
  for (int i = 0; i < 400'000; ++i) {
    texts += "<a/>b";
  }
  ExpectError(Parse(texts + "</net>"), kInvalid, {"too many elements and attributes"});
}

TEST(IrErrorsTest, BodiesAreCounted) {
  std::vector<Layer> layers = {Parameter(0, "x", "2")};
  std::string edges;
  const std::string body =
      Content({Parameter(0, "p", "2"), Unary(1, "t", "Tanh"), Result(2, "r")}, "0.0-1.0, 1.1-2.0");
  for (int i = 1; i <= 1001; ++i) {
    Layer loop = fixture::Loop(i, "TensorIterator",
                               "<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
                               "<output external_port_id=\"1\" internal_layer_id=\"2\"/>",
                               "", body);
    loop.inputs = {Port(0, "2")};
    loop.outputs = {Port(1, "2")};
    layers.push_back(loop);
    absl::StrAppend(&edges, i == 1 ? "" : ", ", i - 1, i == 1 ? ".0-" : ".1-", i, ".0");
  }
  layers.push_back(Result(2000, "r"));
  ExpectError(Parse(Net(layers, edges + ", 1001.1-2000.0")), kInvalid, {"more than 1000 bodies"});
}

}  // namespace
}  // namespace beamwright::ops
