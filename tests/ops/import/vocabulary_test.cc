// The importer's table and the registry of operators must speak of the same things.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/import/ir_layers.h"
#include "ops/loop/operators.h"

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
}  // namespace beamwright::ops
