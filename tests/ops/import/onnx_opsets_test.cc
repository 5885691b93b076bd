// What opsets 27 and 28 brought, which ONNX Runtime does not read yet: against the definitions.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/loop/model.h"
#include "tests/ops/import/onnx_files.h"

namespace beamwright::ops {
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
