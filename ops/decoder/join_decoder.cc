#include "ops/decoder/join_decoder.h"

#include <utility>

#include "ops/base/status.h"
#include "ops/compile/shape_folding.h"
#include "ops/decoder/target_loop.h"

namespace beamwright::ops {
namespace {

absl::StatusOr<JoinedDecoder> JoinOver(int time_axis, Graph graph, GraphInfo info,
                                       const OperatorSet& operators, int tokens,
                                       absl::Span<const int> outputs) {
  BW_RETURN_IF_ERROR(
      FoldShapes(graph, info, operators, DecoderRowAxes(graph, tokens, 1 - time_axis)));
  std::vector<int> results;  // as nodes, which folding has renumbered
  for (const int output : outputs) {
    results.push_back(graph.results[static_cast<size_t>(output)]);
  }
  JoinedDecoder joined;
  BW_ASSIGN_OR_RETURN(joined.graph, JoinTargetLoop(graph, info, operators,
                                                   graph.parameters[static_cast<size_t>(tokens)],
                                                   time_axis, results));
  BW_ASSIGN_OR_RETURN(joined.info, InferGraph(joined.graph, operators));
  BW_RETURN_IF_ERROR(FoldShapes(joined.graph, joined.info, operators,
                                DecoderRowAxes(joined.graph, tokens, 1 - time_axis)));
  joined.loop_node = joined.graph.node(joined.graph.results[0]).inputs[0].node;
  return joined;
}

}  // namespace

absl::StatusOr<JoinedDecoder> JoinDecoder(const Graph& graph, const GraphInfo& info,
                                          const OperatorSet& operators, int tokens, int logits,
                                          int attention) {
  const Node& parameter = graph.node(graph.parameters[static_cast<size_t>(tokens)]);
  const PartialShape& shape = parameter.outputs[0].shape;
  std::vector<int> outputs = {logits};
  if (attention >= 0) {
    outputs.push_back(attention);
  }
  std::string faults;
  std::string last_fault;
  for (const int time_axis : {1, 0}) {
    if (shape.has_rank() && time_axis >= shape.rank()) {
      continue;
    }
    absl::StatusOr<JoinedDecoder> joined =
        JoinOver(time_axis, graph, info, operators, tokens, outputs);
    if (joined.ok()) {
      return joined;
    }
    const std::string fault(joined.status().message());
    if (fault == last_fault) {
      return absl::UnimplementedError(fault);  // whichever axis it is
    }
    last_fault = fault;
    absl::StrAppend(&faults, faults.empty() ? "" : "; ", "with the time on axis ", time_axis,
                    " of '", PortName(graph, graph.parameters[static_cast<size_t>(tokens)]),
                    "': ", fault);
  }
  return absl::UnimplementedError(faults);
}

}  // namespace beamwright::ops
