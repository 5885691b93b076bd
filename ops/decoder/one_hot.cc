#include "ops/decoder/one_hot.h"

#include <utility>

#include "ops/compile/graph_copy.h"

namespace beamwright::ops {

int64_t OneHotTokens(const Graph& graph, int parameter) {
  const ValueInfo& info = graph.node(parameter).outputs[0];
  const bool fits = info.dtype == DType::kF32 && info.shape.has_rank() && info.shape.rank() > 1;
  const int64_t tokens = fits ? info.shape.dims().back() : 0;
  return tokens == PartialShape::kDynamic ? 0 : tokens;
}

void TakeIds(Graph& graph, int parameter) {
  const int64_t tokens = OneHotTokens(graph, parameter);
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index != parameter) {
      copy.Keep(index);
      continue;
    }
    Node ids = copy.Moved(index);
    Shape dims = ids.outputs[0].shape.dims();
    dims.pop_back();
    ids.outputs[0].dtype = DType::kI64;
    ids.outputs[0].shape = PartialShape(std::move(dims));
    const ValueId taken = copy.Keep(index, std::move(ids));
    Node one_hot;
    one_hot.op = "OneHot";
    one_hot.name = graph.node(index).name;
    one_hot.attributes.Set("axis", int64_t{-1});
    one_hot.inputs = {taken,
                      AppendConstant(copy.to(), one_hot.name, Tensor::Scalar<int64_t>(tokens)),
                      AppendConstant(copy.to(), one_hot.name, Tensor::Scalar<float>(1)),
                      AppendConstant(copy.to(), one_hot.name, Tensor::Scalar<float>(0))};
    one_hot.outputs.resize(1);
    copy.Replace({index, 0}, AppendNode(copy.to(), std::move(one_hot)));
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
}

}  // namespace beamwright::ops
