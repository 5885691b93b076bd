// The importer's table and the registry of operators must speak of the same things.

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/ir_graph.h"
#include "ops/import/onnx_operators.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
namespace {

// A layer that is known here but has no kernel would pass the list of unsupported layers and fail
// alone, later.
TEST(VocabularyTest, EveryKnownLayerHasAnOperator) {
  for (const absl::string_view op : KnownOperators()) {
    if (op == "Parameter" || op == "Constant" || op == "Result") {
      continue;
    }
    const Operator* found = Operators().Find(op);
    ASSERT_NE(found, nullptr) << op;
    for (const AttributeRule& rule : FindLayerType(op)->attributes) {
      // What is dropped at its only meaningful value may be one that the operator does not read.
      if (rule.kind != AttributeKind::kDropped && rule.neutral == nullptr) {
        EXPECT_THAT(found->attributes, ::testing::Contains(absl::string_view(rule.name))) << op;
      }
    }
  }
}

// Operators that passes make, and those of ONNX alone, are no layer types.
TEST(VocabularyTest, NoFileNamesWhatOpenVinoDoesNotHave) {
  for (const char* const op : {"AddedNorm", "StateUpdate", "ElementwiseChain", "ArgMax"}) {
    ASSERT_NE(Operators().Find(op), nullptr) << op;
    EXPECT_EQ(FindLayerType(op), nullptr) << op;
  }
}

// The registry names attributes, and ir_layers.cc says of each name what it holds.
TEST(VocabularyTest, AttributesHaveTheTypesOfOpenVino) {
  const auto kind_of = [](const char* type, absl::string_view name) {
    for (const AttributeRule& rule : FindLayerType(type)->attributes) {
      if (rule.name == name) {
        return rule.kind;
      }
    }
    return AttributeKind::kDropped;
  };
  EXPECT_EQ(kind_of("Concat", "axis"), AttributeKind::kInt);
  EXPECT_EQ(kind_of("Clamp", "max"), AttributeKind::kFloat);
  EXPECT_EQ(kind_of("ReduceSum", "keep_dims"), AttributeKind::kBool);
  EXPECT_EQ(kind_of("Convolution", "strides"), AttributeKind::kInts);
  EXPECT_EQ(kind_of("GRUSequence", "linear_before_reset"), AttributeKind::kBool);
  EXPECT_EQ(kind_of("LSTMSequence", "activations_alpha"), AttributeKind::kFloats);
  EXPECT_EQ(kind_of("LSTMSequence", "direction"), AttributeKind::kEnum);
  EXPECT_EQ(kind_of("Einsum", "equation"), AttributeKind::kText);
  EXPECT_EQ(kind_of("GatherND", "joins_batch"), AttributeKind::kDropped) << "of no file";
}

TEST(VocabularyTest, TypesMatchWithoutCaseAndThroughAliases) {
  const std::pair<const char*, const char*> cases[] = {
      {"Const", "Constant"},     {"Constant", "Constant"}, {"ReLU", "ReLU"},
      {"Relu", "ReLU"},          {"SoftMax", "SoftMax"},   {"Softmax", "SoftMax"},
      {"LSTMCELL", "LSTMCell"},  {"loop", "Loop"},         {"TensorIterator", "Loop"},
      {"parameter", "Parameter"}};
  for (const auto& [type, op] : cases) {
    ASSERT_NE(FindLayerType(type), nullptr) << type;
    EXPECT_STREQ(FindLayerType(type)->op, op);
  }
  EXPECT_EQ(FindLayerType("Const "), nullptr);
  EXPECT_EQ(FindLayerType(""), nullptr);
}

}  // namespace

// The table of ONNX's operators against the published list of their versions.

namespace {

std::map<std::string, std::vector<int>> PublishedVersions() {
  std::map<std::string, std::vector<int>> result;
  std::ifstream file(BEAMWRIGHT_SOURCE_DIR "/tests/ops/import/testdata/onnx_operator_versions.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (int version; name != "#" && words >> version;) {
      result[name].push_back(version);
    }
  }
  return result;
}

// A version that the table lacks would be read as the one before it.
TEST(OnnxVocabularyTest, KnowsEveryVersionFromTheOldestOpsetOn) {
  const auto published = PublishedVersions();
  ASSERT_GT(published.size(), 190u);
  for (const OnnxOperator* op : AllOnnxOperators()) {
    if (absl::string_view(op->name) == "SimplifiedLayerNormalization") {
      continue;  // ONNX Runtime's own, which it writes into this domain
    }
    const auto found = published.find(op->name);
    ASSERT_NE(found, published.end()) << op->name;
    std::vector<int> expected;
    if (absl::string_view(op->name) == "LayerNormalization") {
      expected = {1};  // ONNX Runtime's own, with the same meaning, until opset 17 took it over
    }
    for (const int version : found->second) {
      if (version <= kOldestOpset) {
        expected.assign({version});
      } else {
        expected.push_back(version);
      }
    }
    EXPECT_EQ(op->versions, expected) << op->name;
  }
}

TEST(OnnxVocabularyTest, VersionInForceIsTheLastOneNotAboveTheOpset) {
  const OnnxOperator* clip = FindOnnxOperator("", "Clip");
  ASSERT_NE(clip, nullptr);
  EXPECT_EQ(clip->VersionAt(8), 6);
  EXPECT_EQ(clip->VersionAt(11), 11);
  EXPECT_EQ(clip->VersionAt(25), 13);
  EXPECT_EQ(FindOnnxOperator("", "Where")->VersionAt(8), 0);
  EXPECT_EQ(FindOnnxOperator("org.example", "Clip"), nullptr);
}

// What an operator is documented to become must exist.
TEST(OnnxVocabularyTest, BecomesKnownOperators) {
  for (const OnnxOperator* op : AllOnnxOperators()) {
    std::string text = op->becomes;
    for (const char* word : {", or ", " or ", " and "}) {
      for (size_t at; (at = text.find(word)) != std::string::npos;) {
        text.replace(at, std::string(word).size(), ", ");
      }
    }
    for (const absl::string_view name : absl::StrSplit(text, ", ", absl::SkipEmpty())) {
      if (name != "nothing" && name != "Constant" && name != "If" && name != "Loop") {
        EXPECT_NE(Operators().Find(name), nullptr) << op->name << " becomes " << name;
      }
    }
  }
}

}  // namespace

// What opsets 27 and 28 brought, which ONNX Runtime does not read yet: against the definitions.

namespace {

using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::Pointwise;

// The only result of a node of opset 28 on f32 inputs 'a' and, if there are two, 'b'.
std::vector<float> Result(const std::string& node, const std::vector<Tensor>& inputs) {
  onnx::GraphProto graph =
      fixture::GraphOf("node { input: 'a' output: 'y' " + node + " } output { name: 'y' }");
  for (size_t i = 0; i < inputs.size(); ++i) {
    onnx::ValueInfoProto& input = *graph.add_input();
    input.set_name(i == 0 ? "a" : "b");
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (const int64_t extent : inputs[i].shape()) {
      type.mutable_shape()->add_dim()->set_dim_value(extent);
    }
  }
  absl::StatusOr<Graph> parsed = fixture::Parse(fixture::Model(graph, 28));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto model = parsed.ok() ? Model::Compile(*std::move(parsed)) : parsed.status();
  std::vector<Tensor> outputs;
  const absl::Status status =
      model.ok() ? (*model)->Run(ExecutionContext(), inputs, outputs) : model.status();
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? *ToFloat32(outputs[0]) : std::vector<float>();
}

TEST(OnnxOpsetsTest, SpaceToDepthHasTwoOrders) {
  constexpr int kChannels = 3;
  constexpr int kBlock = 2;
  std::vector<float> x(kChannels * kBlock * kBlock);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);  // channel * 4 + row of the block * 2 + column
  }
  const Tensor input = Tensor::Of<float>({1, kChannels, kBlock, kBlock}, x);
  const std::string node = "op_type: 'SpaceToDepth' attribute { name: 'blocksize' type: INT i: 2 }";
  const std::string mode = " attribute { name: 'mode' type: STRING s: '";
  std::vector<float> depth_last;  // the place in the block counts above the channel
  for (int place = 0; place < kBlock * kBlock; ++place) {
    for (int channel = 0; channel < kChannels; ++channel) {
      depth_last.push_back(static_cast<float>(channel * kBlock * kBlock + place));
    }
  }
  EXPECT_THAT(Result(node, {input}), ElementsAreArray(depth_last));
  EXPECT_THAT(Result(node + mode + "DCR' }", {input}), ElementsAreArray(depth_last));
  EXPECT_THAT(Result(node + mode + "CRD' }", {input}), ElementsAreArray(x));
}

TEST(OnnxOpsetsTest, SwiGlu) {
  const std::vector<float> a = {-2, -0.5, 0, 1, 3};
  const std::vector<float> b = {1, -2, 3, -4, 5};
  for (const double alpha : {1.0, 1.702}) {
    std::vector<float> expected;
    for (size_t i = 0; i < a.size(); ++i) {
      const double gate = a[i] / (1 + std::exp(-alpha * a[i]));
      expected.push_back(static_cast<float>(gate * b[i]));
    }
    const std::string node =
        "input: 'b' op_type: 'SwiGLU' attribute { name: 'alpha' type: FLOAT f: " +
        std::to_string(alpha) + " }";
    EXPECT_THAT(Result(node, {Tensor::Of<float>({5}, a), Tensor::Of<float>({5}, b)}),
                Pointwise(FloatNear(1e-5f), expected));
  }
}

}  // namespace

}  // namespace beamwright::ops
