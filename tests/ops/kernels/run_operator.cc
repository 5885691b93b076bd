#include "tests/ops/kernels/run_operator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/base/status.h"
#include "ops/kernels/kernels.h"

namespace beamwright::ops {
namespace {

// Less and less known: everything; shapes and constants; ranks and constants; constants alone.
std::vector<std::vector<InputInfo>> KnowledgeLevels(const Call& call) {
  std::vector<std::vector<InputInfo>> levels(4);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    const bool constant =
        std::find(call.constants.begin(), call.constants.end(), i) != call.constants.end();
    for (size_t level = 0; level < 4; ++level) {
      InputInfo info;
      if (input.has_value()) {
        info.dtype = input.dtype();
        info.value = constant || level == 0 ? &input : nullptr;
        if (constant || level < 2) {
          info.shape = PartialShape(input.shape());
        } else if (level == 2) {
          info.shape = PartialShape(Shape(input.shape().size(), PartialShape::kDynamic));
        }
      }
      levels[level].push_back(info);
    }
  }
  return levels;
}

}  // namespace

const OperatorSet& TestOperators() {
  static const auto& set = *new OperatorSet(KernelOperators());
  return set;
}

Node MakeNode(const Call& call) {
  Node node;
  node.op = call.op;
  node.name = "node";
  for (const auto& [name, value] : call.attributes) {
    node.attributes.Set(name, value);
  }
  node.inputs.resize(call.inputs.size());
  node.outputs.resize(static_cast<size_t>(call.num_outputs));
  return node;
}

absl::StatusOr<std::vector<Tensor>> RunAll(const Call& call) {
  const Operator* op = TestOperators().Find(call.op);
  if (op == nullptr) {
    return Invalid("no operator ", call.op);
  }
  for (const auto& [name, value] : call.attributes) {
    EXPECT_NE(std::find(op->attributes.begin(), op->attributes.end(), name), op->attributes.end())
        << call.op << " does not list " << name;
  }
  Node node = MakeNode(call);
  const auto levels = KnowledgeLevels(call);
  std::vector<std::vector<ValueInfo>> inferred;
  for (const auto& level : levels) {
    std::vector<ValueInfo> outputs(node.outputs.size());
    const absl::Status status = op->infer(node, level, outputs);
    if (&level == &levels[1]) {
      BW_RETURN_IF_ERROR(status);
      node.outputs = outputs;
    }
    inferred.push_back(status.ok() ? outputs : std::vector<ValueInfo>());
  }
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                      op->make({node, levels[1], TestOperators()}));
  std::vector<const Tensor*> inputs;
  for (const Tensor& input : call.inputs) {
    inputs.push_back(&input);
  }
  std::vector<Tensor> outputs(node.outputs.size());
  BW_RETURN_IF_ERROR(
      kernel->Run({.num_threads = call.num_threads}, inputs, absl::MakeSpan(outputs)));
  for (size_t level = 0; level < 4; ++level) {
    EXPECT_EQ(inferred[level].size(), outputs.size()) << call.op << " at level " << level;
    for (size_t i = 0; i < inferred[level].size(); ++i) {
      EXPECT_EQ(inferred[level][i].dtype, outputs[i].dtype());
      EXPECT_TRUE(inferred[level][i].shape.Accepts(outputs[i].shape()))
          << call.op << ": inferred " << inferred[level][i].shape.ToString() << ", got "
          << ToString(outputs[i].shape());
    }
  }
  for (size_t i = 0; i < inferred[0].size(); ++i) {
    EXPECT_TRUE(inferred[0][i].shape.is_static()) << call.op;
  }
  return outputs;
}

Tensor RunOne(const Call& call) {
  const absl::StatusOr<std::vector<Tensor>> outputs = RunAll(call);
  EXPECT_TRUE(outputs.ok()) << call.op << ": " << outputs.status();
  return outputs.ok() ? outputs->at(0) : Tensor();
}

std::string ErrorOf(const Call& call) {
  const absl::StatusOr<std::vector<Tensor>> outputs = RunAll(call);
  return outputs.ok() ? "" : std::string(outputs.status().message());
}

Tensor Random::Floats(Shape shape, float low, float high) {
  Tensor result(DType::kF32, shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<float>()[i] = Float(low, high);
  }
  return result;
}

Tensor Random::Ints(Shape shape, int64_t low, int64_t high, DType dtype) {
  Tensor result(DType::kI64, shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    result.mutable_data<int64_t>()[i] = Int(low, high);
  }
  return *Convert(result, dtype);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.num_elements() == 0 ||
          std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0);
}

Tensor I64(Shape shape, std::vector<int64_t> values) {
  return Tensor::Of<int64_t>(std::move(shape), values);
}
Tensor F32(Shape shape, std::vector<float> values) {
  return Tensor::Of<float>(std::move(shape), values);
}
std::vector<float> Floats(const Tensor& tensor) { return *ToFloat32(tensor); }
std::vector<int64_t> Integers(const Tensor& tensor) { return *ToInt64(tensor); }

}  // namespace beamwright::ops
