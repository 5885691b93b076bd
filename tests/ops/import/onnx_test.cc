// Structure of ONNX models: names, order, opsets, functions, bodies, constants and external data.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

using fixture::ErrorOf;
using fixture::GraphOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A float tensor's type, with extents as text format: "dim_value: 2" each.
std::string Type(const std::string& dims) {
  return absl::StrCat("type { tensor_type { elem_type: 1 shape { ", dims, " } } }");
}
constexpr char kTwo[] = "dim { dim_value: 2 }";

// x [2] -> y by the nodes.
onnx::GraphProto XToY(const std::string& nodes) {
  return GraphOf(absl::StrCat("input { name: 'x' ", Type(kTwo), " } output { name: 'y' ",
                              Type(kTwo), " } ", nodes));
}

std::vector<float> RunXToY(const onnx::ModelProto& proto, std::vector<float> x) {
  absl::StatusOr<Graph> graph = fixture::Parse(proto);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto model = graph.ok() ? Model::Compile(*std::move(graph)) : graph.status();
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) {
    return {};
  }
  std::vector<Tensor> outputs;
  const auto count = static_cast<int64_t>(x.size());
  const absl::Status status =
      (*model)->Run(ExecutionContext(), {Tensor::Of<float>({count}, x)}, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? *ToFloat32(outputs[0]) : std::vector<float>();
}

TEST(OnnxTest, NodesMayStandInAnyOrder) {
  const onnx::GraphProto graph = XToY(
      "node { op_type: 'Exp' input: 'b' output: 'y' } node { op_type: 'Neg' input: 'x' output: 'b' "
      "}");
  const std::vector<float> y = RunXToY(fixture::Model(graph), {0, 1});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_NEAR(y[1], 0.36787944f, 1e-6);
}

TEST(OnnxTest, PortsKeepTheirNames) {
  // The output is the input itself, under another name, and twice.
  const onnx::GraphProto graph = GraphOf(
      absl::StrCat("input { name: 'x' ", Type(kTwo), " } output { name: 'y' ", Type(kTwo),
                   " } output { name: 'z' ", Type(kTwo), " } output { name: 'x' ", Type(kTwo),
                   " } node { op_type: 'Identity' input: 'x' output: 'y' }"
                   " node { op_type: 'Identity' input: 'y' output: 'z' }"));
  const absl::StatusOr<Graph> read = fixture::Parse(fixture::Model(graph));
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<std::string> names;
  for (const int node : read->results) {
    names.push_back(PortName(*read, node));
  }
  EXPECT_THAT(names, ElementsAre("y", "z", "x"));
  EXPECT_EQ(PortName(*read, read->parameters[0]), "x");
}

TEST(OnnxTest, NodesThatNoOutputNeedsAreDropped) {
  const onnx::GraphProto graph = XToY(
      "node { op_type: 'Neg' input: 'x' output: 'y' }"
      "node { op_type: 'NoSuchOperator' input: 'nowhere' output: 'b' }");
  EXPECT_EQ(ErrorOf(fixture::Model(graph)), "");
}

TEST(OnnxTest, EveryUnsupportedNodeIsNamedAtOnce) {
  const onnx::GraphProto graph = XToY(
      "node { op_type: 'Foo' name: 'first' input: 'x' output: 'a' }"
      "node { op_type: 'Bar' domain: 'org.example' input: 'a' output: 'b' }"
      "node { op_type: 'Gelu' input: 'b' output: 'c' }"
      "node { op_type: 'If' input: 'c' output: 'y' attribute { name: 'then_branch' type: GRAPH g {"
      "  output { name: 'q' } node { op_type: 'Inner' input: 'c' output: 'q' } } }"
      "  attribute { name: 'else_branch' type: GRAPH g { output { name: 'c' } } } }");
  const std::string error = ErrorOf(fixture::Model(graph, 17));
  EXPECT_THAT(error, HasSubstr("4 nodes have an unsupported operator"));
  EXPECT_THAT(error, HasSubstr("node 0 'first' (Foo) of opset 17"));
  EXPECT_THAT(error, HasSubstr("node 1 (org.example.Bar) of a domain without an opset"));
  EXPECT_THAT(error, HasSubstr("node 2 (Gelu) of opset 17, known from opset 20"));
  EXPECT_THAT(error, HasSubstr("node 3 (If): body: node 0 (Inner)"));
}

TEST(OnnxTest, WhatIsWrittenForOneMachineIsRefusedWithARemedy) {
  onnx::ModelProto model = fixture::Model(
      XToY(
          "node { op_type: 'Conv' domain: 'com.microsoft.nchwc' input: 'x' output: 'a' }"
          "node { op_type: 'ReorderOutput' domain: 'com.microsoft.nchwc' input: 'a' output: 'y' }"),
      17);
  onnx::OperatorSetIdProto& import = *model.add_opset_import();
  import.set_domain("com.microsoft.nchwc");
  import.set_version(1);
  const std::string error = ErrorOf(model);
  EXPECT_THAT(error, HasSubstr("2 nodes have an unsupported operator"));
  EXPECT_THAT(error, HasSubstr("save it with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"));
}

TEST(OnnxTest, FaultsOfStructureAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"node { op_type: 'Neg' input: 'y' output: 'y' }", "node 0 (Neg) depends on itself"},
      {"node { op_type: 'Neg' input: 'b' output: 'a' } node { op_type: 'Abs' input: 'a' output: "
       "'b' }"
       "node { op_type: 'Exp' input: 'b' output: 'y' }",
       "depends on itself"},
      {"node { op_type: 'Neg' input: 'x' output: 'y' } node { op_type: 'Abs' input: 'x' output: "
       "'y' }",
       "node 1 (Abs): 'y' is defined twice"},
      {"node { op_type: 'Neg' input: 'x' output: 'x' }", "node 0 (Neg): 'x' is defined twice"},
      {"node { op_type: 'Neg' input: 'nowhere' output: 'y' }", "input 'nowhere' is not defined"},
      {"", "output 'y' is not defined"},
      {"node { op_type: 'Neg' output: 'y' }", "has 0 inputs; Neg takes 1"},
      {"node { op_type: 'Add' input: 'x' input: '' output: 'y' }", "input 1 must not be left out"},
      {"node { op_type: 'Neg' input: 'x' output: 'y' output: 'z' }", "at most 1"},
      {"node { op_type: 'Neg' input: 'x' output: 'y' attribute { name: 'axis' type: INT i: 1 } }",
       "attribute 'axis' is not known to Neg of opset 13"},
      {"node { op_type: 'Elu' input: 'x' output: 'y' attribute { name: 'alpha' type: INT i: 1 } }",
       "attribute 'alpha' is of kind INT; it must be FLOAT"},
      {"node { op_type: 'Elu' input: 'x' output: 'y' attribute { name: 'alpha' type: FLOAT f: 1 }"
       " attribute { name: 'alpha' type: FLOAT f: 2 } }",
       "attribute 'alpha' is given twice"},
      {"node { op_type: 'Neg' input: 'x' output: 'y' } initializer { name: 'w' data_type: 1 }"
       "initializer { name: 'w' data_type: 1 }",
       "initializer 'w' occurs twice"},
      {"node { op_type: 'Neg' input: 'x' output: 'y' } sparse_initializer { }",
       "sparse initializers are not supported"},
      {"node { op_type: 'Neg' input: 'x' output: 'b' } node { op_type: 'Shape' input: 'b' output: "
       "'y' }",
       "node 1 (Shape): value is declared f32"},
  };
  for (const auto& [nodes, expected] : cases) {
    EXPECT_THAT(ErrorOf(fixture::Model(XToY(nodes))), HasSubstr(expected)) << nodes;
  }
}

TEST(OnnxTest, OpsetsOutsideTheKnownOnesAreRefused) {
  const onnx::GraphProto graph = XToY("node { op_type: 'Neg' input: 'x' output: 'y' }");
  EXPECT_EQ(ErrorOf(fixture::Model(graph, 8)), "");
  EXPECT_EQ(ErrorOf(fixture::Model(graph, 28)), "");
  EXPECT_THAT(ErrorOf(fixture::Model(graph, 7)), HasSubstr("opset 7 is not supported; 8 to 28"));
  EXPECT_THAT(ErrorOf(fixture::Model(graph, 29)), HasSubstr("opset 29 is not supported"));
  onnx::ModelProto model = fixture::Model(graph, 17);
  model.clear_opset_import();
  EXPECT_THAT(ErrorOf(model), HasSubstr("no opset is imported"));
}

// As in ONNX Runtime, whichever way the domain is spelled: Mish came with opset 18.
TEST(OnnxTest, OfTwoImportsOfADomainTheLastOneCounts) {
  const onnx::GraphProto graph = XToY("node { op_type: 'Mish' input: 'x' output: 'y' }");
  const auto error = [&](int64_t first, int64_t last) {
    onnx::ModelProto model = fixture::Model(graph, first);
    onnx::OperatorSetIdProto* const import = model.add_opset_import();
    import->set_domain("ai.onnx");
    import->set_version(last);
    return ErrorOf(model);
  };
  EXPECT_EQ(error(17, 18), "");
  EXPECT_THAT(error(18, 17), HasSubstr("known from opset 18"));
}

TEST(OnnxTest, InitializersOfAllKindsOfFields) {
  const std::pair<const char*, float> cases[] = {
      {"data_type: 1 float_data: 2.5", 2.5f},
      {"data_type: 1 raw_data: '\\000\\000\\040\\100'", 2.5f},
      {"data_type: 11 double_data: 2.5", 2.5f},
      {"data_type: 10 int32_data: 16640", 2.5f},  // f16 0x4100
      {"data_type: 16 int32_data: 16416", 2.5f},  // bf16 0x4020
      {"data_type: 7 int64_data: -3", -3.0f},
      {"data_type: 3 int32_data: -3", -3.0f},
      {"data_type: 13 uint64_data: 9", 9.0f},
      {"data_type: 9 raw_data: '\\007'", 1.0f},
  };
  for (const auto& [tensor, expected] : cases) {
    const onnx::GraphProto graph =
        GraphOf(absl::StrCat("output { name: 'y' } initializer { name: 'w' ", tensor,
                             " } node { op_type: 'Cast' input: 'w' output: 'y' attribute { name: "
                             "'to' type: INT i: 1 } }"));
    absl::StatusOr<Graph> read = fixture::Parse(fixture::Model(graph));
    ASSERT_TRUE(read.ok()) << tensor << read.status();
    const auto model = Model::Compile(*std::move(read));
    std::vector<Tensor> outputs;
    ASSERT_TRUE((*model)->Run(ExecutionContext(), {}, outputs).ok());
    EXPECT_THAT(*ToFloat32(outputs[0]), ElementsAre(expected)) << tensor;
  }
}

TEST(OnnxTest, InitializersThatDoNotFitTheirShapes) {
  const std::pair<const char*, const char*> cases[] = {
      {"dims: 2 data_type: 1 float_data: 1", "has 1 elements; its shape is [2]"},
      {"dims: 2 data_type: 1 raw_data: 'abc'", "has 3 bytes of elements; f32[2] takes 8"},
      {"dims: -1 data_type: 1", "negative"},
      {"dims: 1000000000000 dims: 1000000000000 data_type: 1", "initializer 'w'"},
      {"dims: 1 data_type: 8 string_data: 'a'", "element type 8 (text) is not supported"},
      {"dims: 1 data_type: 17 raw_data: 'a'", "element type 17 is not supported"},
      {"dims: 2 data_type: 5 int32_data: [ 1, 40000 ]", "element 1 is 40000, which i16"},
      {"dims: 1 data_type: 4 int32_data: -1", "element 0 is -1, which u16 does not hold"},
  };
  for (const auto& [tensor, expected] : cases) {
    const onnx::GraphProto graph =
        XToY(absl::StrCat("initializer { name: 'w' ", tensor,
                          " } node { op_type: 'Add' input: 'x' input: 'w' output: 'y' }"));
    EXPECT_THAT(ErrorOf(fixture::Model(graph)), HasSubstr(expected)) << tensor;
  }
}

TEST(OnnxTest, InputsWithInitializersAreConstants) {
  const onnx::GraphProto graph = XToY(
      absl::StrCat("input { name: 'w' ", Type(kTwo),
                   " } initializer { name: 'w' dims: 2 data_type: 1 float_data: 1"
                   " float_data: 2 } node { op_type: 'Add' input: 'x' input: 'w' output: 'y' }"));
  EXPECT_THAT(RunXToY(fixture::Model(graph), {10, 20}), ElementsAre(11, 22));
}

// y = f(f(x)) with f(a) = a * factor + 1, factor an attribute with a default.
onnx::ModelProto ModelWithFunction(const std::string& second_call) {
  onnx::ModelProto model =
      fixture::Model(XToY(absl::StrCat("node { op_type: 'F' domain: 'my' input: 'x' output: 'b' "
                                       "attribute { name: 'factor' type: FLOAT f: 3 } }"
                                       "node { op_type: 'F' domain: 'my' input: 'b' output: 'y' ",
                                       second_call, " }")));
  onnx::FunctionProto* function = model.add_functions();
  function->set_name("F");
  function->set_domain("my");
  function->add_input("a");
  function->add_output("r");
  function->add_opset_import()->set_version(17);
  *function->add_node() = GraphOf(
                              "node { op_type: 'Constant' output: 'k' attribute { "
                              "name: 'value_float' type: FLOAT ref_attr_name: 'factor' } }")
                              .node(0);
  *function->add_node() =
      GraphOf("node { op_type: 'Mul' input: 'a' input: 'k' output: 'x' }").node(0);
  *function->add_node() = GraphOf(
                              "node { op_type: 'Constant' output: 'one' attribute { "
                              "name: 'value_float' type: FLOAT f: 1 } }")
                              .node(0);
  *function->add_node() =
      GraphOf("node { op_type: 'Add' input: 'x' input: 'one' output: 'r' }").node(0);
  // attribute_proto, field 11, which the schema of this library does not know: factor = 2.
  onnx::AttributeProto factor;
  factor.set_name("factor");
  factor.set_type(onnx::AttributeProto::FLOAT);
  factor.set_f(2);
  function->GetReflection()->MutableUnknownFields(function)->AddLengthDelimited(
      11, factor.SerializeAsString());
  return model;
}

TEST(OnnxTest, FunctionsOfTheModelAreInlined) {
  EXPECT_THAT(RunXToY(ModelWithFunction(""), {1, 2}), ElementsAre(9, 15));
  const std::string unknown = "attribute { name: 'other' type: FLOAT f: 3 }";
  EXPECT_THAT(ErrorOf(ModelWithFunction(unknown)),
              HasSubstr("'other' is not one of the function's"));
}

TEST(OnnxTest, FunctionsThatCallThemselvesEnd) {
  onnx::ModelProto model = ModelWithFunction("");
  *model.mutable_functions(0)->mutable_node(3) =
      GraphOf("node { op_type: 'F' domain: 'my' input: 'x' output: 'r' }").node(0);
  EXPECT_THAT(ErrorOf(model), HasSubstr("functions are nested more than 16 deep"));
  // Two calls each: the depth alone would allow 2^16 of them, times the nodes.
  for (int i = 0; i < 60; ++i) {
    *model.mutable_functions(0)->add_node() =
        GraphOf(absl::StrCat("node { op_type: 'Neg' input: 'x' output: 'n", i, "' }")).node(0);
  }
  EXPECT_NE(ErrorOf(model), "");
}

class ExternalDataTest : public ::testing::Test {
 protected:
  ExternalDataTest() {
    std::string pattern = ::testing::TempDir() + "/onnx_external_XXXXXX";
    root_ = mkdtemp(pattern.data());
    std::filesystem::create_directories(root_ / "model/sub");
    Write("model/weights.bin", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12));
    Write("secret.bin", std::string(12, '\0'));
  }
  ~ExternalDataTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(root_ / name, std::ios::binary) << content;
  }
  // y = x + w with w in a file; the error, or "" and y for x = [10, 20].
  std::string Read(const std::string& location, const std::string& offset,
                   const std::string& length = "") {
    onnx::GraphProto graph = XToY(
        "initializer { name: 'w' dims: 2 data_type: 1 data_location: EXTERNAL }"
        "node { op_type: 'Add' input: 'x' input: 'w' output: 'y' }");
    const auto set = [&](const char* key, const std::string& value) {
      auto* entry = graph.mutable_initializer(0)->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    set("location", location);
    if (!offset.empty()) {
      set("offset", offset);
    }
    if (!length.empty()) {
      set("length", length);
    }
    Write("model/m.onnx", fixture::Model(graph).SerializeAsString());
    absl::StatusOr<Graph> read = ReadOnnx((root_ / "model/m.onnx").string());
    return read.ok() ? "" : std::string(read.status().message());
  }

  std::filesystem::path root_;
};

TEST_F(ExternalDataTest, ReadsRangesOfFilesBesideTheModel) {
  EXPECT_EQ(Read("weights.bin", "4", "8"), "");
  EXPECT_EQ(Read("weights.bin", "", ""), "");
  EXPECT_EQ(Read("sub/../weights.bin", "").substr(0, 1), "'");  // refused by its spelling
  std::filesystem::create_symlink("../weights.bin", root_ / "model/sub/inside");
  EXPECT_EQ(Read("sub/inside", "4"), "");
}

TEST_F(ExternalDataTest, NothingOutsideTheFolderIsRead) {
  std::filesystem::create_symlink("../secret.bin", root_ / "model/link.bin");
  std::filesystem::create_symlink("../..", root_ / "model/up");
  for (const std::string& location :
       {std::string("../secret.bin"), (root_ / "secret.bin").string(), std::string(""),
        std::string("link.bin"), std::string("sub/../../secret.bin"), std::string("/etc/passwd"),
        std::string("..\\secret.bin"), std::string("."), std::string("sub")}) {
    EXPECT_THAT(Read(location, ""), HasSubstr("initializer 'w'")) << location;
  }
}

TEST_F(ExternalDataTest, RangesMustLieInTheFile) {
  EXPECT_THAT(Read("weights.bin", "8"),
              HasSubstr("8 bytes from 8 lie outside 'weights.bin' of 12"));
  EXPECT_THAT(Read("weights.bin", "0", "4"), HasSubstr("length is 4; f32[2] takes 8 bytes"));
  EXPECT_THAT(Read("weights.bin", "0", "12"), HasSubstr("length is 12; f32[2] takes 8 bytes"));
  EXPECT_THAT(Read("weights.bin", "-4"), HasSubstr("offset is '-4'"));
  EXPECT_THAT(Read("weights.bin", "9223372036854775807"), HasSubstr("lie outside"));
  EXPECT_THAT(Read("weights.bin", "x"), HasSubstr("offset is 'x'"));
  EXPECT_THAT(Read("absent.bin", ""), HasSubstr("absent.bin'"));
}

}  // namespace
}  // namespace beamwright::ops
