#include "ops/decoder/transducer.h"

#include <utility>

#include "ops/base/status.h"
#include "ops/decoder/float_ports.h"
#include "ops/decoder/transducer_graphs.h"
#include "ops/graph/rewrite.h"

namespace beamwright::ops {
namespace {

absl::StatusOr<std::unique_ptr<RowGraph>> CompilePart(TransducerPart part,
                                                      absl::Span<const StepState> states,
                                                      const RowGraphOptions& options,
                                                      int64_t num_tokens) {
  DropLargeConstants(part.graph);
  BW_ASSIGN_OR_RETURN(
      std::unique_ptr<RowGraph> graph,
      RowGraph::Compile(std::move(part.graph), std::move(part.info), states, options));
  BW_RETURN_IF_ERROR(graph->SelfCheck(options.context, num_tokens));
  return graph;
}

// The number of scores of a row.
absl::Status FindColumns(Transducer& transducer) {
  const RowGraph& joiner = *transducer.joiner;
  const ValueInfo& scores = joiner.result(0);
  if (scores.dtype != DType::kF32) {
    return absl::UnimplementedError(
        absl::StrCat("joiner: the scores are ", Name(scores.dtype), "; supported is f32"));
  }
  if (joiner.projection() != nullptr) {
    transducer.num_columns = joiner.projection()->vocabulary();
    return absl::OkStatus();
  }
  int64_t columns = 1;
  for (int axis = 1; scores.shape.has_rank() && axis < scores.shape.rank(); ++axis) {
    columns =
        scores.shape.dim(axis) == PartialShape::kDynamic ? 0 : columns * scores.shape.dim(axis);
  }
  if (!scores.shape.has_rank() || scores.shape.rank() < 2 || columns < 2) {
    return Invalid("joiner.logits_output: the scores are ", scores.shape.ToString(),
                   "; they must be [rows, columns], but for axes of 1");
  }
  transducer.num_columns = columns;
  return absl::OkStatus();
}

}  // namespace

absl::Status CompileTransducer(Graph predictor, std::optional<Graph> joiner,
                               const TransducerPorts& ports, const TransducerOptions& options,
                               Transducer& transducer) {
  TakeAndGiveF32(predictor);
  if (joiner.has_value()) {
    TakeAndGiveF32(*joiner);
  }
  BW_ASSIGN_OR_RETURN(const JoinedTransducer joined,
                      JoinTransducer(std::move(predictor), std::move(joiner), ports, options));
  BW_ASSIGN_OR_RETURN(TransducerParts parts, CutTransducer(joined));
  transducer.frame_shape = joined.frame_shape;
  transducer.frame_width = joined.frame_width;
  transducer.first_output = static_cast<int>(joined.states.size());
  transducer.joiner_inputs = std::move(parts.joiner_inputs);
  RowGraphOptions row;
  row.weights = options.steps;
  row.token_table_share = options.token_table_share;
  row.context = options.context;
  if (parts.frames.has_value()) {
    auto frames = CompilePart(*std::move(parts.frames), {}, row, 0);
    BW_RETURN_IF_ERROR(Annotate(frames.status(), "joiner"));
    transducer.frames = *std::move(frames);
  }
  RowGraphOptions steps = row;
  steps.num_tokens = options.context_size > 0 ? 0 : options.num_tokens;
  auto compiled = CompilePart(std::move(parts.predictor), joined.states, steps, options.num_tokens);
  BW_RETURN_IF_ERROR(Annotate(compiled.status(), "predictor"));
  transducer.predictor = *std::move(compiled);
  row.projected_result = options.keeps_scores ? -1 : 0;
  row.projection = options.projection;
  row.score_kind = options.score_kind;
  compiled = CompilePart(std::move(parts.joiner), {}, row, 0);
  BW_RETURN_IF_ERROR(Annotate(compiled.status(), "joiner"));
  transducer.joiner = *std::move(compiled);
  return FindColumns(transducer);
}

}  // namespace beamwright::ops
