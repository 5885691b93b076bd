#include "tests/fuzz/graph_input.h"

#include "ops/base/status.h"
#include "ops/import/graph_file.h"

namespace beamwright::ops {

absl::StatusOr<Graph> GraphOfIr(absl::string_view bytes) {
  const size_t end = bytes.find('\0');
  return end == absl::string_view::npos
             ? ParseOpenVinoIr(bytes, absl::NotFoundError("no weights"))
             : ParseOpenVinoIr(bytes.substr(0, end), bytes.substr(end + 1));
}

absl::StatusOr<Graph> GraphOfOnnx(absl::string_view bytes) {
  return ParseOnnx(bytes, [](const std::string& name) -> absl::StatusOr<std::string> {
    return absl::NotFoundError(name);
  });
}

absl::StatusOr<std::vector<Tensor>> InputsFor(const Graph& graph, int64_t extent,
                                              int64_t max_elements) {
  std::vector<Tensor> inputs;
  for (const int parameter : graph.parameters) {
    const ValueInfo& info = graph.node(parameter).outputs[0];
    Shape shape = info.shape.has_rank() ? info.shape.dims() : Shape{extent, extent};
    for (int64_t& dim : shape) {
      dim = dim == PartialShape::kDynamic ? extent : dim;
    }
    BW_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(shape));
    if (elements > max_elements) {
      return Invalid("too many elements");
    }
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 5) - 1;
    }
    const DType dtype = info.dtype == DType::kUndefined ? DType::kF32 : info.dtype;
    BW_ASSIGN_OR_RETURN(Tensor input, Convert(Tensor::Of<float>(shape, values), dtype));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace beamwright::ops
