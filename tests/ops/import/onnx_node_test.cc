// ONNX's own node tests, as Debian's libonnx-testdata ships them: every one either passes or stands
// in onnx_node_skips.txt with the reason, and then must not pass.

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/base/file.h"
#include "ops/import/onnx_operators.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

// "<test or prefix*> <reason>" a line.
using Skips = std::vector<std::pair<std::string, std::string>>;

const Skips& ReadSkips() {
  static const auto* const skips = [] {
    auto* result = new Skips;
    std::ifstream file(std::string(BEAMWRIGHT_SOURCE_DIR) +
                       "/tests/ops/import/testdata/onnx_node_skips.txt");
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (parts.size() == 2 && parts[0] != "#") {
        result->emplace_back(parts[0], parts[1]);
      }
    }
    return result;
  }();
  return *skips;
}

std::string SkipReason(const std::string& test) {
  for (const auto& [name, reason] : ReadSkips()) {
    const bool prefix = absl::EndsWith(name, "*");
    if (prefix ? absl::StartsWith(test, name.substr(0, name.size() - 1)) : test == name) {
      return reason;
    }
  }
  return "";
}

// The data has 16-bit floats of the second kind as u16.
Tensor As(DType dtype, const Tensor& tensor) {
  if (dtype != DType::kBF16 || tensor.dtype() != DType::kU16) {
    return tensor;
  }
  Tensor result(dtype, tensor.shape());
  std::memcpy(result.mutable_bytes(), tensor.bytes(), static_cast<size_t>(tensor.num_bytes()));
  return result;
}

// Whether every operator, in bodies too, means at kOldestOpset what it meant at `opset`: the first
// version in its table is the one in force at kOldestOpset, so it must not be younger than `opset`.
// The tables' versions are checked against ONNX's own in vocabulary_test.cc.
bool MeansTheSame(const onnx::GraphProto& graph, int64_t opset) {
  return std::all_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto& node) {
    const OnnxOperator* op = FindOnnxOperator(node.domain(), node.op_type());
    const bool bodies = std::all_of(
        node.attribute().begin(), node.attribute().end(),
        [&](const auto& each) { return !each.has_g() || MeansTheSame(each.g(), opset); });
    return bodies && (op == nullptr || op->versions.front() <= opset);
  });
}

// ONNX writes each test at the opset that last changed its operator, which for some is below the
// oldest that is supported (And: 7). Such a model is read as of that one, where nothing in it has
// changed its meaning in between.
absl::StatusOr<Graph> ReadModel(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  onnx::ModelProto model;
  if (!bytes.ok() || !model.ParseFromString(*bytes)) {
    return absl::InternalError(path + " can't be read");
  }
  for (auto& import : *model.mutable_opset_import()) {
    if (import.domain().empty() && MeansTheSame(model.graph(), import.version())) {
      import.set_version(std::max<int64_t>(import.version(), kOldestOpset));
    }
  }
  return fixture::Parse(model);
}

// "" if the model gives the expected outputs.
std::string Fault(const std::string& test) {
  const std::string folder = fixture::OnnxNodeTestFolder(test);
  absl::StatusOr<Graph> graph = ReadModel(folder + "/model.onnx");
  if (!graph.ok()) {
    return std::string(graph.status().message());
  }
  auto inputs = fixture::ReadTensors(folder + "/test_data_set_0", "input");
  const auto expected = fixture::ReadTensors(folder + "/test_data_set_0", "output");
  if (!inputs.ok() || !expected.ok()) {
    return std::string((inputs.ok() ? expected.status() : inputs.status()).message());
  }
  const auto model = Model::Compile(*std::move(graph));
  if (!model.ok()) {
    return std::string(model.status().message());
  }
  for (size_t i = 0; i < inputs->size() && i < (*model)->graph().parameters.size(); ++i) {
    const Graph& compiled = (*model)->graph();
    inputs->at(i) = As(compiled.node(compiled.parameters[i]).outputs[0].dtype, inputs->at(i));
  }
  std::vector<Tensor> outputs;
  const absl::Status status = (*model)->Run(ExecutionContext(), *inputs, outputs);
  if (!status.ok()) {
    return std::string(status.message());
  }
  if (outputs.size() != expected->size()) {
    return "another number of outputs";
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType dtype = outputs[i].dtype();
    const double tolerance = dtype == DType::kF16 ? 1e-3 : dtype == DType::kBF16 ? 1e-2 : 1e-5;
    const std::string difference =
        fixture::Difference(outputs[i], As(outputs[i].dtype(), expected->at(i)), tolerance);
    if (!difference.empty()) {
      return absl::StrCat("output ", i, " ", difference);
    }
  }
  return "";
}

class OnnxNodeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OnnxNodeTest, GivesThePublishedOutputs) {
  const std::string reason = SkipReason(GetParam());
  const std::string fault = Fault(GetParam());
  if (reason.empty()) {
    EXPECT_EQ(fault, "");
  } else {
    EXPECT_NE(fault, "") << "passes, but is skipped: " << reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Published, OnnxNodeTest, ::testing::ValuesIn(fixture::OnnxNodeTests()),
                         [](const auto& test) { return test.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxNodeTest);

}  // namespace

// What a quantised ONNX file must not ask for: one error each, which names the input. That the rest
// means what ONNX Runtime means is held by tests/conformance.

namespace {

using fixture::ErrorOf;
using fixture::GraphOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// x u8 [2, 3] dequantised by `scale` and a zero point of `zero_type`.
onnx::ModelProto Dequantising(const std::string& scale, const std::string& zero_type,
                              const std::string& zero = "3") {
  return fixture::Model(GraphOf(absl::StrReplaceAll(
      R"pb(
        name: "g"
        node {
          op_type: "DequantizeLinear"
          name: "q"
          input: [ "x", "s", "z" ]
          output: "y"
        }
        initializer { name: "s" data_type: 1 float_data: SCALE }
        initializer { name: "z" data_type: ZERO int32_data: POINT }
        input {
          name: "x"
          type {
            tensor_type {
              elem_type: 2
              shape {
                dim { dim_value: 2 }
                dim { dim_value: 3 }
              }
            }
          }
        }
        output {
          name: "y"
          type { tensor_type { elem_type: 1 } }
        }
      )pb",
      {{"SCALE", scale}, {"ZERO", zero_type}, {"POINT", zero}})));
}

constexpr char kUint8[] = "2";
constexpr char kInt8[] = "3";

TEST(OnnxQuantizedTest, AScaleMustBeFiniteAndAboveZero) {
  EXPECT_EQ(ErrorOf(Dequantising("0.5", kUint8)), "");
  for (const auto& [scale, text] :
       {std::pair("0", "0"), {"-0.5", "-0.5"}, {"nan", "nan"}, {"inf", "inf"}}) {
    EXPECT_THAT(ErrorOf(Dequantising(scale, kUint8)),
                HasSubstr(std::string("input 'x_scale': element 0 is ") + text +
                          "; a scale must be a finite number above 0"));
  }
}

TEST(OnnxQuantizedTest, AllThatIsWrongIsToldAtOnce) {
  EXPECT_THAT(ErrorOf(fixture::Model(GraphOf(R"pb(
                node { op_type: "DequantizeLinear" name: "one" input: "x" input: "s" output: "a" }
                node { op_type: "Relu" name: "sound" input: "a" output: "b" }
                node { op_type: "DequantizeLinear" name: "two" input: "x" input: "t" output: "c" }
                node {
                  op_type: "DequantizeLinear"
                  name: "three"
                  input: "x"
                  input: "u"
                  input: "z"
                  output: "d"
                }
                node { op_type: "Sum" name: "last" input: "b" input: "c" input: "d" output: "y" }
                initializer { name: "s" data_type: 1 float_data: 0 }
                initializer { name: "t" data_type: 1 float_data: -1 }
                initializer { name: "u" data_type: 1 float_data: 1 }
                initializer { name: "z" data_type: 3 int32_data: 0 }
                input {
                  name: "x"
                  type {
                    tensor_type {
                      elem_type: 2
                      shape { dim { dim_value: 2 } }
                    }
                  }
                }
                output {
                  name: "y"
                  type { tensor_type { elem_type: 1 } }
                }
              )pb"))),
              AllOf(HasSubstr("'one'"), HasSubstr("element 0 is 0; a scale"), HasSubstr("'two'"),
                    HasSubstr("element 0 is -1; a scale"), HasSubstr("'three'"),
                    HasSubstr("x_zero_point: element type i8"), Not(HasSubstr("'sound'")),
                    Not(HasSubstr("'last'"))));
}

TEST(OnnxQuantizedTest, AZeroPointHasTheTypeOfItsValues) {
  EXPECT_THAT(ErrorOf(Dequantising("0.5", kInt8)), HasSubstr("x_zero_point"));
}

// Cast, it would be another zero point.
TEST(OnnxQuantizedTest, AZeroPointLiesWithinItsType) {
  EXPECT_EQ(ErrorOf(Dequantising("0.5", kUint8, "255")), "");
  EXPECT_THAT(
      ErrorOf(Dequantising("0.5", kUint8, "256")),
      HasSubstr("initializer 'z': element 0 is 256, which u8 does not hold; it has 0 to 255"));
  EXPECT_THAT(ErrorOf(Dequantising("0.5", kUint8, "-1")), HasSubstr("element 0 is -1"));
  EXPECT_THAT(ErrorOf(Dequantising("0.5", kInt8, "128")),
              HasSubstr("element 0 is 128, which i8 does not hold; it has -128 to 127"));
}

TEST(OnnxQuantizedTest, AConvolutionsZeroPointHasTheTypeOfItsValues) {
  EXPECT_THAT(ErrorOf(fixture::Model(GraphOf(R"pb(
                name: "g"
                node {
                  op_type: "ConvInteger"
                  name: "c"
                  input: [ "x", "w", "z" ]
                  output: "y"
                }
                initializer {
                  name: "w"
                  data_type: 2
                  dims: [ 1, 1, 1 ]
                  int32_data: 3
                }
                initializer { name: "z" data_type: 3 int32_data: 3 }
                input {
                  name: "x"
                  type {
                    tensor_type {
                      elem_type: 2
                      shape {
                        dim { dim_value: 1 }
                        dim { dim_value: 1 }
                        dim { dim_value: 3 }
                      }
                    }
                  }
                }
                output {
                  name: "y"
                  type { tensor_type { elem_type: 6 } }
                }
              )pb"))),
              HasSubstr("a zero point of type i8 does not belong to values of type u8"));
}

}  // namespace

// Recurrent layers of 16-bit floats as exports write them, with and without what they may leave
// out: the layer of f32 with the same weights gives nearly the same.

namespace {

constexpr int kHidden = 2;
constexpr int kInputs = 3;

// ONNX's number of the type.
int NumberOf(DType dtype) { return dtype == DType::kF16 ? 10 : dtype == DType::kBF16 ? 16 : 1; }

// What a layer leaves out, by input: W and R always stand.
struct Given {
  bool bias = false;
  bool lengths = false;
  bool first_state = false;
  bool cell_state = false;
};

void AddInitializer(const std::string& name, const Tensor& value, int type,
                    onnx::GraphProto& graph) {
  onnx::TensorProto& added = *graph.add_initializer();
  added.set_name(name);
  added.set_data_type(type);
  added.mutable_dims()->Add(value.shape().begin(), value.shape().end());
  added.set_raw_data(value.bytes(), static_cast<size_t>(value.num_bytes()));
}

Tensor Numbers(const Shape& shape, float step, DType dtype) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = step * static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
  }
  return *Convert(Tensor::Of<float>(shape, values), dtype);
}

onnx::GraphProto Layer(const std::string& op, int64_t gates, DType dtype, const Given& given) {
  const int type = NumberOf(dtype);
  std::vector<std::string> inputs = {"x",
                                     "w",
                                     "r",
                                     given.bias ? "b" : "",
                                     given.lengths ? "lengths" : "",
                                     given.first_state ? "h0" : ""};
  if (given.cell_state && op == "LSTM") {
    inputs.push_back("h0");
  }
  while (inputs.back().empty()) {
    inputs.pop_back();
  }
  std::string node = absl::StrCat("node { op_type: '", op, "' output: 'y' attribute { name: ",
                                  "'hidden_size' type: INT i: ", kHidden, " }");
  for (const std::string& input : inputs) {
    absl::StrAppend(&node, " input: '", input, "'");
  }
  onnx::GraphProto graph = fixture::GraphOf(absl::StrCat(
      "name: 'g' input { name: 'x' type { tensor_type { elem_type: ", type,
      " shape { dim { dim_param: 'time' } dim { dim_value: 2 } dim { dim_value: ", kInputs,
      " } } } } } output { name: 'y' type { tensor_type { elem_type: ", type, " } } } ", node,
      " }"));
  AddInitializer("w", Numbers({1, gates * kHidden, kInputs}, 0.125F, dtype), type, graph);
  AddInitializer("r", Numbers({1, gates * kHidden, kHidden}, 0.25F, dtype), type, graph);
  AddInitializer("b", Numbers({1, 2 * gates * kHidden}, 0.0625F, dtype), type, graph);
  AddInitializer("h0", Numbers({1, 2, kHidden}, 0.125F, dtype), type, graph);
  AddInitializer("lengths", Tensor::Of<int32_t>({2}, std::vector<int32_t>{4, 2}), 6, graph);
  return graph;
}

absl::StatusOr<std::vector<float>> RunLayer(const std::string& op, int64_t gates, DType dtype,
                                            const Given& given) {
  const auto graph = fixture::Parse(
      fixture::Model(Layer(op, gates, dtype, given), dtype == DType::kBF16 ? 22 : 14));
  if (!graph.ok()) {
    return graph.status();
  }
  const auto model = Model::Compile(*graph);
  if (!model.ok()) {
    return model.status();
  }
  const std::vector<Tensor> inputs = {Numbers({4, 2, kInputs}, 0.125F, dtype)};
  std::vector<Tensor> outputs;
  const absl::Status ran = (*model)->Run(ExecutionContext(), inputs, outputs);
  return ran.ok() ? ToFloat32(outputs[0]) : absl::StatusOr<std::vector<float>>(ran);
}

TEST(OnnxShortRecurrentTest, WhatALayerLeavesOutHasItsType) {
  const std::pair<const char*, int64_t> layers[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};
  const Given forms[] = {
      {},           {true}, {true, false, true}, {true, false, true, true}, {false, true, true},
      {false, true}};
  for (const auto& [op, gates] : layers) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      for (const Given& given : forms) {
        const auto expected = RunLayer(op, gates, DType::kF32, given);
        const auto got = RunLayer(op, gates, dtype, given);
        ASSERT_TRUE(expected.ok()) << op << expected.status();
        ASSERT_TRUE(got.ok()) << op << ' ' << Name(dtype) << ' ' << got.status();
        ASSERT_EQ(got->size(), expected->size());
        for (size_t i = 0; i < got->size(); ++i) {
          EXPECT_NEAR((*got)[i], (*expected)[i], 0.02) << op << ' ' << Name(dtype) << ' ' << i;
        }
      }
    }
  }
}

}  // namespace

}  // namespace beamwright::ops
