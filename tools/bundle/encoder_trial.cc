// Runs an encoder on made-up inputs (TrialInputs: one source of kTrialLength positions, zeros, and
// true lengths) to see what it does.
//
// IsTrueAtPadding finds the meaning of a mask: it runs two sources with the mask at 0, and both
// with the mask at 1. If results differ between the sources only at 0, the mask is true where the
// source ends.
#include "tools/bundle/encoder_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/graph/trace.h"
#include "ops/loop/model.h"

namespace beamwright::tools {
namespace {

ops::Tensor Filled(ops::DType dtype, const ops::Shape& shape, int value) {
  ops::Tensor tensor = ops::Tensor::Zeros(dtype, shape);
  const auto count = static_cast<size_t>(tensor.num_elements());
  switch (dtype) {
    case ops::DType::kI64:
      return ops::Tensor::Of<int64_t>(shape, std::vector<int64_t>(count, value));
    case ops::DType::kI32:
      return ops::Tensor::Of<int32_t>(shape, std::vector<int32_t>(count, value));
    case ops::DType::kF32:
      return ops::Tensor::Of<float>(shape, std::vector<float>(count, static_cast<float>(value)));
    case ops::DType::kBool:
      std::fill_n(tensor.mutable_data<bool>(), count, value != 0);
      return tensor;
    default:
      return tensor;
  }
}

}  // namespace

int ParameterOf(const ops::Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (ops::PortName(graph, graph.parameters[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<ops::Tensor> TrialInputs(const ops::Graph& graph, const std::string& source,
                                     const ops::EncoderRoles& roles) {
  std::vector<ops::Tensor> inputs;
  for (const int parameter : graph.parameters) {
    const ops::ValueInfo& info = graph.node(parameter).outputs[0];
    ops::Shape shape = info.shape.has_rank() ? info.shape.dims() : ops::Shape();
    for (int64_t& extent : shape) {
      extent = extent == ops::PartialShape::kDynamic ? 1 : extent;
    }
    const std::string name = ops::PortName(graph, parameter);
    const bool is_length = name == roles.length_input;
    if ((name == source || (is_length && roles.length_kind != ops::LengthKind::kLengths)) &&
        shape.size() > 1) {
      shape[0] = 1;
      shape[1] = kTrialLength;
    }
    const bool has_length = is_length && roles.length_kind == ops::LengthKind::kLengths;
    inputs.push_back(Filled(info.dtype, shape, has_length ? static_cast<int>(kTrialLength) : 0));
  }
  return inputs;
}

bool IsTrueAtPadding(const ops::Graph& encoder, const ops::EncoderRoles& roles) {
  const int source = ParameterOf(encoder, roles.input);
  const int mask = ParameterOf(encoder, roles.length_input);
  const auto model = ops::Model::Compile(encoder);
  if (source < 0 || mask < 0 || !model.ok()) {
    return false;
  }
  std::vector<ops::Tensor> inputs = TrialInputs(encoder, roles.input, roles);
  // By the mask's value and result: whether it follows the source.
  std::vector<bool> follows[2];
  for (const int value : {0, 1}) {
    std::vector<ops::Tensor> results[2];
    for (const int token : {0, 1}) {
      for (const int input : {source, mask}) {
        ops::Tensor& tensor = inputs[static_cast<size_t>(input)];
        tensor = Filled(tensor.dtype(), tensor.shape(), input == source ? token : value);
      }
      if (!(*model)->Run(ops::ExecutionContext(), inputs, results[token]).ok()) {
        return false;
      }
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      const ops::Tensor& one = results[0][i];
      const ops::Tensor& other = results[1][i];
      bool differs = false;
      for (int64_t k = 0; one.dtype() == ops::DType::kF32 && k < one.num_elements(); ++k) {
        // Not a number is no answer to a source.
        differs = differs || std::abs(one.span<float>()[static_cast<size_t>(k)] -
                                      other.span<float>()[static_cast<size_t>(k)]) > 0;
      }
      follows[value].push_back(differs);
    }
  }
  bool lost = false;
  for (size_t i = 0; i < follows[0].size(); ++i) {
    lost = lost || (follows[0][i] && !follows[1][i]);
    if (follows[1][i] && !follows[0][i]) {
      return false;
    }
  }
  return lost;
}

}  // namespace beamwright::tools
