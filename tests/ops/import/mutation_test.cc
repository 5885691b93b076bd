// Damaged files: whatever happens to the bytes of a sound file, the answer is a graph or an error.
// Meant for the sanitizer builds; seeds are fixed.

#include <algorithm>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/base/file.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/loop/operators.h"
#include "tests/ops/import/ir_fixture.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

using fixture::Content;
using fixture::Layer;
using fixture::Net;
using fixture::Parameter;
using fixture::Port;
using fixture::Result;
using fixture::Unary;

// Uses as much of the format as fits in a small file.
std::string Seed() {
  Layer loop = fixture::Loop(
      7, "Loop",
      "<input external_port_id=\"2\" internal_layer_id=\"0\" axis=\"1\" start=\"-1\" end=\"0\" "
      "stride=\"-2\" part_size=\"2\"/><input external_port_id=\"3\" internal_layer_id=\"1\"/>"
      "<output external_port_id=\"4\" internal_layer_id=\"10\" axis=\"1\" stride=\"2\"/>"
      "<output external_port_id=\"-1\" internal_layer_id=\"11\" purpose=\"execution_condition\"/>",
      "<edge from-layer=\"11\" to-layer=\"1\"/>",
      Content({Parameter(0, "p", "?,2"),
               Parameter(1, "q", "..."),
               {2,
                "w",
                "Const",
                "element_type=\"boolean\" shape=\"3\" offset=\"1\" size=\"3\"",
                {},
                {Port(0, "3", "precision=\"BOOL\"")}},
               Result(10, "r"),
               Result(11, "s")},
              "0.0-10.0, 2.0-11.0"));
  loop.inputs = {Port(0, ""), Port(1, ""), Port(2, "-1,6"), Port(3, "")};
  loop.outputs = {Port(4, "-1,6", "precision=\"FP32\" names=\"a\\,b,c\"")};
  Layer clamp = Unary(5, "clamp", "Clamp");
  clamp.data = "min=\"-1\" max=\"1e3\"";
  return Net({Parameter(20, "x", "1..4,6"),
              Parameter(21, "y", ""),
              {3,
               "c",
               "Const",
               "element_type=\"f16\" shape=\"2, 2\" offset=\"0\" size=\"8\"",
               {},
               {Port(0, "2,2")}},
              clamp,
              loop,
              Result(22, "r"),
              Result(23, "k")},
             "21.0-7.0, 21.0-7.1, 20.0-5.0, 5.1-7.2, 21.0-7.3, 7.4-22.0, 3.0-23.0");
}

// One or two random edits: flipped, removed, doubled or exchanged bytes; digits become others.
std::string Mutate(const std::string& seed, std::mt19937& random) {
  std::string text = seed;
  const auto place = [&] { return random() % (text.size() + 1); };
  for (unsigned edits = 1 + random() % 2; edits > 0 && !text.empty(); --edits) {
    const size_t at = std::min<size_t>(place(), text.size() - 1);
    const size_t length = std::min<size_t>(random() % 60, text.size() - at);
    switch (random() % 8) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(place(), text.substr(at, length));
        break;
      case 3:
        text.resize(at);
        break;
      default: {  // numbers are where arithmetic can go wrong
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) {
          constexpr const char* kNumbers[] = {"0",
                                              "1",
                                              "2",
                                              "3",
                                              "4",
                                              "5",
                                              "20",
                                              "-1",
                                              "7",
                                              "1000000",
                                              "9223372036854775807",
                                              "-9223372036854775808",
                                              "281474976710656",
                                              "1e999"};
          text.replace(digit, 1, kNumbers[random() % std::size(kNumbers)]);
        }
      }
    }
  }
  return text;
}

TEST(IrMutationTest, DamagedFilesNeverDoHarm) {
  const std::string seed = Seed();
  const std::string weights(16, '\x3c');
  ASSERT_TRUE(fixture::Parse(seed, weights).ok()) << fixture::Parse(seed, weights).status();
  std::mt19937 random(20240611);
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    const absl::StatusOr<Graph> graph = fixture::Parse(Mutate(seed, random), weights);
    if (!graph.ok()) {
      EXPECT_FALSE(graph.status().message().empty());
      EXPECT_LT(graph.status().message().size(), 20'000u);
      continue;
    }
    ++accepted;
    for (size_t n = 0; n < graph->nodes.size(); ++n) {
      for (const ValueId input : graph->nodes[n].inputs) {
        ASSERT_GE(input.node, 0);
        ASSERT_LT(input.node, static_cast<int>(n));
        ASSERT_LT(static_cast<size_t>(input.output), graph->node(input.node).outputs.size());
      }
    }
  }
  // Neither all refused (the edits would prove little) nor all accepted.
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 3900);
}

TEST(IrMutationTest, DamagedDocumentExample) {
  std::string text =
      fixture::ReadTestFile("tests/ops/import/testdata/tensor_iterator_example_2.xml.txt");
  for (size_t at; (at = text.find(" ...>")) != std::string::npos;) {
    text.erase(at, 4);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const absl::StatusOr<Graph> graph = fixture::Parse(Mutate(text, random), "short");
    EXPECT_FALSE(graph.ok()) << "the weights are too short whatever the text";
  }
}

}  // namespace

// Damaged and hostile ONNX files: whatever happens to the bytes of a sound file, the answer is a
// graph or an error. Meant for the sanitizer builds; seeds are fixed.

namespace {

using ::testing::HasSubstr;

absl::StatusOr<Graph> ParseBytes(const std::string& bytes) {
  return ParseOnnx(bytes, [](const std::string& name) {
    return absl::StatusOr<std::string>(absl::NotFoundError(name));
  });
}

// One or two edits: exchanged, removed or doubled bytes, or a cut.
std::string MutateModel(const std::string& seed, std::mt19937& random) {
  std::string bytes = seed;
  for (unsigned edits = 1 + random() % 2; edits > 0 && !bytes.empty(); --edits) {
    const size_t at = random() % bytes.size();
    const size_t length = std::min<size_t>(random() % 40, bytes.size() - at);
    switch (random() % 6) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(random() % bytes.size(), bytes.substr(at, length));
        break;
      case 3:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
        break;
      default:
        bytes[at] = static_cast<char>(random());
    }
  }
  return bytes;
}

// Models that use much of the format, of the published tests.
constexpr const char* kSeeds[] = {"scan9_sum",
                                  "scan_sum",
                                  "loop11",
                                  "if",
                                  "lstm_with_peepholes",
                                  "gru_batchwise",
                                  "basic_conv_with_padding",
                                  "split_variable_parts_2d",
                                  "softmax_large_number_expanded",
                                  "layer_normalization_2d_axis1_expanded",
                                  "castlike_FLOAT_to_DOUBLE",
                                  "constantofshape_float_ones",
                                  "slice_neg_steps",
                                  "reduce_sum_keepdims_random",
                                  "constant_pad"};

TEST(OnnxMutationTest, DamagedFilesNeverDoHarm) {
  std::mt19937 random(20240612);
  int accepted = 0;
  int refused = 0;
  for (const char* seed : kSeeds) {
    const absl::StatusOr<std::string> bytes =
        ReadFile(fixture::OnnxNodeTestFolder(seed) + "/model.onnx");
    if (!bytes.ok()) {
      GTEST_SKIP() << "libonnx-testdata is not installed";
    }
    for (int i = 0; i < 400; ++i) {
      absl::StatusOr<Graph> graph = ParseBytes(MutateModel(*bytes, random));
      if (graph.ok()) {
        ++accepted;
        // What was inferred on the way holds.
        const absl::StatusOr<GraphInfo> info = InferGraph(*graph, Operators());
        EXPECT_TRUE(info.ok()) << seed << ": " << info.status();
      } else {
        ++refused;
        EXPECT_FALSE(graph.status().message().empty());
        EXPECT_LT(graph.status().message().size(), 20'000u);
      }
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 500);
}

// A graph whose node holds a graph whose node holds a graph ...
onnx::GraphProto Nested(int depth) {
  onnx::GraphProto graph = fixture::GraphOf("output { name: 'y' }");
  onnx::NodeProto* node = graph.add_node();
  node->add_output("y");
  if (depth == 0) {
    node->set_op_type("Constant");
    return graph;
  }
  node->set_op_type("If");
  node->add_input("c");
  for (const char* branch : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    if (branch[0] == 't') {
      *attribute->mutable_g() = Nested(depth - 1);
    }
  }
  return graph;
}

TEST(OnnxMutationTest, DeepNestingIsRefused) {
  EXPECT_THAT(fixture::ErrorOf(fixture::Model(Nested(20))), HasSubstr("nested more than 16 deep"));
  EXPECT_NE(fixture::ErrorOf(fixture::Model(Nested(60))), "");
}

TEST(OnnxMutationTest, FilesThatAskForMuchMemoryAreRefused) {
  // A million empty nodes, two bytes each, in one graph.
  std::string graph;
  for (int i = 0; i < 1 << 20; ++i) {
    graph.append("\x0a\x00", 2);
  }
  const auto varint = [](uint64_t value) {
    std::string bytes;
    for (; value >= 128; value >>= 7) {
      bytes.push_back(static_cast<char>(value | 128));
    }
    bytes.push_back(static_cast<char>(value));
    return bytes;
  };
  const std::string model = absl::StrCat("\x3a", varint(graph.size()), graph);
  EXPECT_THAT(std::string(ParseBytes(model).status().message()), HasSubstr("would take more than"));
}

TEST(OnnxMutationTest, PackedNumbersCountAsWhatTheyBecome) {
  onnx::GraphProto graph;
  onnx::TensorProto* const tensor = graph.add_initializer();
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(8 << 20);
  tensor->mutable_int64_data()->Resize(8 << 20, 1);  // a byte each in the file
  EXPECT_THAT(fixture::ErrorOf(fixture::Model(graph)), HasSubstr("would take more than"));
}

// x -> y by a function, `calls` times in a row.
onnx::ModelProto Calling(int calls, const onnx::NodeProto& inside) {
  onnx::GraphProto graph = fixture::GraphOf(
      "input { name: 'x0' type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } } }");
  for (int i = 0; i < calls; ++i) {
    onnx::NodeProto* const call = graph.add_node();
    call->set_op_type("f");
    call->set_domain("own");
    call->add_input(absl::StrCat("x", i));
    call->add_output(absl::StrCat("x", i + 1));
  }
  graph.add_output()->set_name(absl::StrCat("x", calls));
  onnx::ModelProto model = fixture::Model(graph);
  onnx::OperatorSetIdProto* const own = model.add_opset_import();
  own->set_domain("own");
  own->set_version(1);
  onnx::FunctionProto* const function = model.add_functions();
  function->set_name("f");
  function->set_domain("own");
  function->add_input("x");
  function->add_output("y");
  function->add_opset_import()->set_version(17);
  *function->add_node() = inside;
  return model;
}

TEST(OnnxMutationTest, WhatCallsRepeatIsBounded) {
  onnx::NodeProto node;
  node.set_op_type("Constant");
  node.add_output("y");
  onnx::AttributeProto* const list = node.add_attribute();
  list->set_name("value_floats");
  list->set_type(onnx::AttributeProto::FLOATS);
  list->add_floats(0);
  EXPECT_EQ(fixture::ErrorOf(Calling(1000, node)), "");
  for (int i = 1; i < 10'000; ++i) {
    list->add_floats(0);
  }
  EXPECT_THAT(fixture::ErrorOf(Calling(1000, node)), HasSubstr("calls of functions repeat"));
}

TEST(OnnxMutationTest, LongNamesAndExtentsAreRefused) {
  onnx::GraphProto graph = fixture::GraphOf("node { op_type: 'Abs' input: 'x' output: 'y' }");
  graph.mutable_node(0)->set_name(std::string(4097, 'n'));
  EXPECT_THAT(fixture::ErrorOf(fixture::Model(graph)), HasSubstr("a name of 4097 bytes"));
  EXPECT_THAT(fixture::ErrorOf(fixture::Model(fixture::GraphOf(
                  "input { name: 'x' type { tensor_type { elem_type: 1 shape {"
                  " dim { dim_value: 9223372036854775807 } dim { dim_value: 2 } } } } }"
                  "node { op_type: 'Concat' input: 'x' input: 'x' output: 'y'"
                  " attribute { name: 'axis' type: INT i: 0 } } output { name: 'y' }"))),
              HasSubstr("2^48"));
}

TEST(OnnxMutationTest, FoldingIsBoundedForTheWholeGraph) {
  std::string text =
      "output { name: 'y' } initializer { name: 's' dims: 1 data_type: 7 int64_data: 250000 }";
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&text, "node { op_type: 'ConstantOfShape' input: 's' output: 'c", i, "' }");
    absl::StrAppend(&text, "node { op_type: 'Add' input: 'c", i, "' input: '",
                    i == 0 ? "c0" : absl::StrCat("a", i - 1), "' output: '",
                    i == 1999 ? std::string("y") : absl::StrCat("a", i), "' }");
  }
  // 4 GB if all were folded.
  EXPECT_EQ(fixture::ErrorOf(fixture::Model(fixture::GraphOf(text))), "");
}

}  // namespace

}  // namespace beamwright::ops
