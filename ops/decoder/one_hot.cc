#include "ops/decoder/one_hot.h"

#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/decoder/decoder_form.h"

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

absl::Status AddScoreOfBegin(Graph& graph, const std::string& name, float score) {
  BW_ASSIGN_OR_RETURN(const int result, FindResult(graph, "decoder.logits_output", name));
  const int port = graph.results[static_cast<size_t>(result)];
  const PartialShape& shape = InfoOfResult(graph, result).shape;
  if (!shape.has_rank() || shape.rank() == 0) {
    return absl::OkStatus();
  }
  std::vector<int64_t> none(static_cast<size_t>(shape.rank()), 0);
  std::vector<int64_t> one = none;
  one.back() = 1;
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index != port) {
      copy.Keep(index);
      continue;
    }
    Node result_node = copy.Moved(index);
    Node pad;
    pad.op = "Pad";
    pad.name = graph.node(index).name;
    pad.attributes.Set("pad_mode", std::string("constant"));
    pad.inputs = {result_node.inputs[0], AppendInts(copy.to(), pad.name, none),
                  AppendInts(copy.to(), pad.name, one),
                  AppendConstant(copy.to(), pad.name, Tensor::Scalar<float>(score))};
    pad.outputs.resize(1);
    result_node.inputs[0] = AppendNode(copy.to(), std::move(pad));
    for (ValueInfo& info : result_node.outputs) {
      info.shape = PartialShape();  // what the file declares is a column less
    }
    copy.Keep(index, std::move(result_node));
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
  return absl::OkStatus();
}

}  // namespace beamwright::ops
