// Recurrent layers of 16-bit floats as exports write them, with and without what they may leave
// out: the layer of f32 with the same weights gives nearly the same.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
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
