// Faults of port maps and back edges. Each test changes one rule of a sound loop.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ops/import/ir_fixture.h"

namespace beamwright::ops {
namespace {

using fixture::Content;
using fixture::Layer;
using fixture::Parameter;
using fixture::Port;
using fixture::Result;
using fixture::Unary;
using ::testing::HasSubstr;

constexpr char kSliced[] = "<input external_port_id=\"0\" internal_layer_id=\"0\" axis=\"1\"/>";
constexpr char kCarried[] = "<input external_port_id=\"1\" internal_layer_id=\"1\"/>";
constexpr char kOutput[] = "<output external_port_id=\"2\" internal_layer_id=\"10\" axis=\"1\"/>";
constexpr char kBackEdge[] = "<edge from-layer=\"11\" to-layer=\"1\"/>";

std::string Sound(const std::string& type) {
  const std::string body = Content({Parameter(0, "p0", "..."), Parameter(1, "p1", "..."),
                                    Unary(5, "t", "Tanh"), Result(10, "r0"), Result(11, "r1")},
                                   "0.0-5.0, 5.1-10.0, 1.0-11.0");
  Layer loop = fixture::Loop(7, type, absl::StrCat(kSliced, kCarried, kOutput), kBackEdge, body);
  loop.inputs = {Port(0, "2,6"), Port(1, "")};
  loop.outputs = {Port(2, "2,6", "precision=\"FP32\"")};
  return fixture::Net({Parameter(20, "x", "2,6"), Parameter(21, "s", "..."), loop, Result(22, "r")},
                      "20.0-7.0, 21.0-7.1, 7.2-22.0");
}

void ExpectFault(const std::string& from, const std::string& to,
                 const std::vector<std::string>& pieces, const std::string& type = "TensorIterator",
                 absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const std::string xml = Sound(type);
  ASSERT_TRUE(fixture::Parse(xml).ok()) << fixture::Parse(xml).status();
  ASSERT_THAT(xml, HasSubstr(from));
  const absl::StatusOr<Graph> graph = fixture::Parse(absl::StrReplaceAll(xml, {{from, to}}));
  ASSERT_FALSE(graph.ok()) << from << " -> " << to;
  EXPECT_EQ(graph.status().code(), code) << graph.status();
  const std::string message(graph.status().message());
  EXPECT_THAT(message, HasSubstr(absl::StrCat("layer 7 'loop' (", type, ")")));
  for (const std::string& piece : pieces) {
    EXPECT_THAT(message, HasSubstr(piece));
  }
}

std::string Slice(const std::string& attributes) {
  return absl::StrCat("<input external_port_id=\"0\" internal_layer_id=\"0\" axis=\"1\" ",
                      attributes, "/>");
}

TEST(LoopErrorsTest, Body) {
  ExpectFault("body>", "bodi>", {"has no <body>"});
  ExpectFault("from-layer=\"5\" from-port=\"1\"", "from-layer=\"5\" from-port=\"9\"",
              {"body: edge from layer 5 port 9", "layer 5 't' (Tanh) has no output port 9"});
}

TEST(LoopErrorsTest, InputRules) {
  ExpectFault("internal_layer_id=\"0\"", "internal_layer_id=\"77\"",
              {"input rule of external port 0", "layer 77 is not a Parameter of the body",
               "have the ids: 0, 1"});
  ExpectFault("internal_layer_id=\"0\"", "internal_layer_id=\"5\"",
              {"layer 5 is not a Parameter of the body"});
  ExpectFault("internal_layer_id=\"0\"", "", {"no attribute 'internal_layer_id'"});
  ExpectFault("external_port_id=\"0\"", "", {"no attribute 'external_port_id'"});
  ExpectFault("external_port_id=\"0\"", "external_port_id=\"2\"", {"has no input port 2"});
  ExpectFault("external_port_id=\"0\"", "external_port_id=\"-1\"", {"has no input port -1"});
  ExpectFault(kSliced, absl::StrCat(kSliced, kSliced), {"another rule feeds body Parameter 'p0'"});
  ExpectFault(kSliced, "", {"body Parameter 'p0' has no rule in the port_map"});
  ExpectFault(
      kCarried, "",
      {"body Parameter 'p1' is the target of a back edge", "no rule gives its initial value"});
  ExpectFault("internal_layer_id=\"1\"", "internal_layer_id=\"1\" axis=\"0\"",
              {"input rule of external port 1", "body Parameter 'p1' is sliced along axis 0",
               "target of the back edge from Result 'r1'"});
  ExpectFault(kCarried, absl::StrReplaceAll(kCarried, {{"/>", " purpose=\"current_iteration\"/>"}}),
              {"purpose 'current_iteration'"});
  ExpectFault("external_port_id=\"1\" internal_layer_id=\"1\"",
              "external_port_id=\"-1\" internal_layer_id=\"1\" purpose=\"current_iteration\"",
              {"body Parameter 'p1' is the iteration's number and the target of a back edge"},
              "Loop");
  ExpectFault("external_port_id=\"1\" internal_layer_id=\"1\"",
              "external_port_id=\"-1\" internal_layer_id=\"1\" purpose=\"dance\"",
              {"purpose 'dance'"}, "Loop");
}

TEST(LoopErrorsTest, Slices) {
  ExpectFault(kSliced, Slice("stride=\"0\""), {"input rule of external port 0", "stride is 0"});
  ExpectFault(kSliced, Slice("part_size=\"0\""), {"part_size 0 is not positive"});
  ExpectFault(kSliced, Slice("part_size=\"-2\" stride=\"-2\""), {"part_size -2"});
  ExpectFault(kSliced, Slice("part_size=\"2\" stride=\"1\""), {"part_size 2 contradicts stride 1"});
  ExpectFault(kSliced, Slice("start=\"3\" end=\"1\""),
              {"no step of stride 1 leads from start 3 to end 1"});
  ExpectFault(kSliced, Slice("start=\"-4\" end=\"-2\" stride=\"-1\""), {"start -4 to end -2"});
  ExpectFault(kSliced, Slice("start=\"first\""), {"'start'", "'first'"});
  ExpectFault(kSliced, Slice("stride=\"-9223372036854775808\""), {"'stride'", "2^48"});
}

TEST(LoopErrorsTest, OutputRules) {
  ExpectFault("internal_layer_id=\"10\"", "internal_layer_id=\"0\"",
              {"output rule of external port 2", "layer 0 is not a Result of the body",
               "have the ids: 10, 11"});
  ExpectFault("external_port_id=\"2\"", "external_port_id=\"0\"", {"has no output port 0"});
  ExpectFault(kOutput, absl::StrCat(kOutput, kOutput), {"another rule writes output port 2"});
  ExpectFault(kOutput, "", {"output port 2 has no rule"});
  ExpectFault(kOutput, absl::StrReplaceAll(kOutput, {{"/>", " stride=\"0\"/>"}}), {"stride is 0"});
  const std::string condition =
      "<output external_port_id=\"-1\" internal_layer_id=\"11\" purpose=\"execution_condition\"/>";
  ExpectFault(kOutput, absl::StrCat(kOutput, condition), {"purpose 'execution_condition'"});
  ExpectFault(kOutput, absl::StrCat(kOutput, condition, condition),
              {"another rule has the purpose"}, "Loop");
}

TEST(LoopErrorsTest, BackEdges) {
  ExpectFault("from-layer=\"11\" to-layer=\"1\"", "from-layer=\"5\" to-layer=\"1\"",
              {"back edge from body layer 5 to 1", "layer 5 is not a Result of the body"});
  ExpectFault("from-layer=\"11\" to-layer=\"1\"", "from-layer=\"11\" to-layer=\"99\"",
              {"layer 99 is not a Parameter of the body"});
  ExpectFault("from-layer=\"11\" to-layer=\"1\"", "from-layer=\"11\"", {"no attribute 'to-layer'"});
  ExpectFault(kBackEdge, absl::StrCat(kBackEdge, "<edge from-layer=\"10\" to-layer=\"1\"/>"),
              {"back edge from body layer 10 to 1", "body Parameter 'p1' has another back edge"});
}

TEST(LoopErrorsTest, OldForm) {
  ExpectFault(kSliced, Slice("internal_port_id=\"0\""), {"versions 5 to 7"}, "TensorIterator",
              absl::StatusCode::kUnimplemented);
}

TEST(LoopErrorsTest, IterationsWithoutSlices) {
  // Nothing is sliced: two concatenated outputs must agree on the number of parts.
  const std::string invariant = "<input external_port_id=\"0\" internal_layer_id=\"0\"/>";
  ExpectFault(
      absl::StrCat(kSliced, kCarried, kOutput),
      absl::StrCat(invariant, kCarried, absl::StrReplaceAll(kOutput, {{"/>", " stride=\"4\"/>"}})),
      {"output port 2: 6 elements in parts of 4 do not make whole iterations"});
  ExpectFault(absl::StrCat(kSliced, kCarried, kOutput),
              absl::StrCat(invariant, kCarried,
                           absl::StrReplaceAll(kOutput, {{"axis=\"1\"", "axis=\"2\""}})),
              {"output port 2", "axis 2 is outside"});
}

TEST(LoopErrorsTest, LoopNeedsTripCountAndCondition) {
  Layer loop = fixture::Loop(0, "Loop", "", "", Content({Parameter(0, "p", "2")}, ""));
  loop.inputs = {Port(0, "")};
  loop.outputs = {Port(1, "")};
  const absl::StatusOr<Graph> graph = fixture::Parse(
      fixture::Net({Parameter(1, "x", "2"), loop, Result(2, "r")}, "1.0-0.0, 0.1-2.0"));
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("trip count and execution condition"));
}

// A hostile file may nest loops as deep as it likes; reading them must not recurse as deep.
TEST(LoopErrorsTest, DeepNesting) {
  for (const int depth : {17, 200}) {
    std::string body = Content({Parameter(0, "p", "2"), Result(10, "r")}, "0.0-10.0");
    for (int i = 0; i < depth; ++i) {
      Layer loop = fixture::Loop(5, "TensorIterator",
                                 "<input external_port_id=\"0\" internal_layer_id=\"0\"/>"
                                 "<output external_port_id=\"1\" internal_layer_id=\"10\"/>",
                                 "", body);
      loop.inputs = {Port(0, "")};
      loop.outputs = {Port(1, "")};
      body = Content({Parameter(0, "p", "2"), loop, Result(10, "r")}, "0.0-5.0, 5.1-10.0");
    }
    const absl::StatusOr<Graph> graph =
        fixture::Parse(absl::StrCat("<net version=\"11\">", body, "</net>"));
    ASSERT_FALSE(graph.ok());
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr("nested more than 16 deep"));
  }
  std::string elements;
  for (int i = 0; i < 200'000; ++i) {
    elements.append("<a>");
  }
  EXPECT_FALSE(fixture::Parse(elements).ok());
}

}  // namespace
}  // namespace beamwright::ops
