// Runs graphs built in tests, and reads their outputs.
#ifndef BEAMWRIGHT_TESTS_OPS_LOOP_RUN_GRAPH_H_
#define BEAMWRIGHT_TESTS_OPS_LOOP_RUN_GRAPH_H_

#include <string>
#include <vector>

#include "ops/loop/model.h"

namespace beamwright::ops {

inline absl::StatusOr<std::vector<Tensor>> RunGraph(Graph graph,
                                                    const std::vector<Tensor>& inputs) {
  const absl::StatusOr<std::unique_ptr<Model>> model = Model::Compile(std::move(graph));
  if (!model.ok()) {
    return model.status();
  }
  std::vector<Tensor> outputs;
  const absl::Status status = (*model)->Run(ExecutionContext(), inputs, outputs);
  return status.ok() ? absl::StatusOr<std::vector<Tensor>>(std::move(outputs)) : status;
}

inline std::string ErrorOf(const absl::StatusOr<std::vector<Tensor>>& outputs) {
  return std::string(outputs.status().message());
}

inline Tensor F32(Shape shape, const std::vector<float>& values) {
  return Tensor::Of<float>(std::move(shape), values);
}
inline Tensor I64(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::Of<int64_t>(std::move(shape), values);
}
inline Tensor Bool(bool value) { return Tensor::Scalar(value); }

inline std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_OPS_LOOP_RUN_GRAPH_H_
