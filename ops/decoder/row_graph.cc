// A graph that is run over rows of many requests, such as a transducer's predictor or joiner: each
// row has inputs, perhaps states, and results. It is compiled as a loop's body, since LoopBody
// already steps rows of many requests together; an input is a slice per step, a state is carried.
//
// 1. Compile makes the loop's rules (RuleOf), splits off the projection onto the vocabulary, adds
//    tables per token, and compiles the body.
// 2. Run steps rows: row i continues the state of row parents[i] of the step before.
// 3. SelfCheck, at load: random rows are run together and alone (RunsTogetherAsAlone). If one bit
//    differs, rows are computed one at a time from then on.
#include "ops/decoder/row_graph.h"

#include <algorithm>
#include <random>
#include <utility>

#include "ops/base/status.h"
#include "ops/decoder/self_check.h"
#include "ops/decoder/split_projection.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

LoopInput RuleOf(const Graph& graph, int parameter, absl::Span<const StepState> states) {
  LoopInput rule;
  rule.input = parameter;
  rule.body_parameter = parameter;
  rule.external_id = parameter;
  for (const StepState& state : states) {
    if (state.parameter == parameter) {
      rule.kind = LoopInput::Kind::kCarried;
      rule.back_edge = state.result;
      return rule;
    }
  }
  rule.kind = LoopInput::Kind::kSliced;
  const PartialShape& shape =
      graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].shape;
  // Tokens [rows, 1] are parts of a sequence; anything else is given row by row.
  rule.drop_axis = shape.rank() != 2 || shape.dim(1) != 1;
  rule.axis = rule.drop_axis ? 0 : 1;
  return rule;
}

// Random rows for an input or a state.
Tensor RandomRows(const ValueInfo& info, int64_t rows, int64_t limit, std::mt19937& random) {
  Shape shape = info.shape.dims();
  for (int64_t& dim : shape) {
    dim = dim == PartialShape::kDynamic ? 1 : dim;
  }
  shape[0] = rows;
  Tensor values(DType::kF32, shape);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const float value = uniform(random);
    values.mutable_data<float>()[i] =
        IsFloat(info.dtype) ? 2 * value - 1
                            : static_cast<float>(static_cast<int64_t>(
                                  value * static_cast<float>(std::max<int64_t>(limit, 1))));
  }
  absl::StatusOr<Tensor> converted = Convert(values, info.dtype);
  return converted.ok() ? *converted : values;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowGraph>> RowGraph::Compile(Graph graph, GraphInfo info,
                                                            absl::Span<const StepState> states,
                                                            const RowGraphOptions& options) {
  std::unique_ptr<RowGraph> result(new RowGraph());
  Loop loop;
  for (int i = 0; i < static_cast<int>(graph.parameters.size()); ++i) {
    const LoopInput rule = RuleOf(graph, i, states);
    const ValueInfo& input = graph.node(graph.parameters[static_cast<size_t>(i)]).outputs[0];
    if (!input.shape.has_rank() || input.shape.rank() == 0) {
      return Invalid("input '", PortName(graph, graph.parameters[static_cast<size_t>(i)]),
                     "' has no axis for rows");
    }
    (rule.kind == LoopInput::Kind::kCarried ? result->states_ : result->inputs_).push_back(input);
    loop.inputs.push_back(rule);
  }
  loop.body = std::move(graph);
  result->score_kind_ = options.score_kind;
  if (options.projected_result >= 0) {
    result->projection_ =
        SplitProjection(loop.body, info, options.projected_result, /*num_tokens=*/0,
                        options.projection, result->score_kind_);
  }
  const OperatorSet& operators = Operators(options.weights);
  TakeScalesByRow(info, operators, loop);
  if (options.num_tokens > 0) {
    result->token_tables_ = AddTokenTables(
        {options.num_tokens, options.token_table_share, options.context}, operators, loop, info);
  }
  BW_ASSIGN_OR_RETURN(
      result->body_,
      LoopBody::Compile(std::make_shared<const Loop>(std::move(loop)), info, operators));
  if (result->body_->counts_steps()) {
    return absl::UnimplementedError(
        "a state grows in each step, which only states of decoders may");
  }
  return result;
}

const ValueInfo& RowGraph::result(int index) const {
  const Graph& body = body_->loop().body;
  return body.info(body.node(body.results[static_cast<size_t>(index)]).inputs[0]);
}

absl::Status RowGraph::Run(const ExecutionContext& context, absl::Span<const Tensor> inputs,
                           absl::Span<const int32_t> parents, Scratch& scratch,
                           std::vector<Tensor>& states, std::vector<Tensor>& results) const {
  if (!scratch.is_bound) {
    BW_RETURN_IF_ERROR(body_->Bind(context, {}, scratch.values));
    scratch.is_bound = true;
  }
  LoopBody::RequestValues* const values = &scratch.values;
  const auto rows = static_cast<int>(parents.size());
  const LoopBody::RowStep step{{&values, 1}, {&rows, 1}, parents, inputs};
  BW_RETURN_IF_ERROR(body_->StepRows(context, step, scratch.rows, states, results));
  for (const Tensor& result : results) {
    if (!result.has_value() || result.rank() == 0 || result.dim(0) != rows) {
      return absl::InternalError(
          absl::StrCat("a graph over ", rows, " rows gave ", ToString(result.shape())));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RowGraph::RunsTogetherAsAlone(const ExecutionContext& context,
                                                   int64_t num_tokens) const {
  std::mt19937 random(20061);
  constexpr int64_t kRows = 3;
  std::vector<Tensor> states;
  for (const ValueInfo& state : states_) {
    states.push_back(RandomRows(state, kRows, num_tokens, random));
  }
  for (const std::vector<int32_t>& parents :
       {std::vector<int32_t>{0, 1, 2}, std::vector<int32_t>{2, 0, 0}}) {
    std::vector<Tensor> inputs;
    for (const ValueInfo& input : inputs_) {
      inputs.push_back(RandomRows(input, kRows, num_tokens, random));
    }
    const std::vector<Tensor> old = states;
    std::vector<Tensor> results;
    Scratch scratch;
    BW_RETURN_IF_ERROR(Run(context, inputs, parents, scratch, states, results));
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<Tensor> own;
      for (const Tensor& input : inputs) {
        own.push_back(input.Rows(row, row + 1));
      }
      std::vector<Tensor> alone = old;
      std::vector<Tensor> alone_results;
      Scratch alone_scratch;
      BW_RETURN_IF_ERROR(Run(context, own, {&parents[static_cast<size_t>(row)], 1}, alone_scratch,
                             alone, alone_results));
      for (size_t i = 0; i < states.size(); ++i) {
        if (!SameBits(alone[i], states[i].Rows(row, row + 1))) {
          return false;
        }
      }
      for (size_t i = 0; i < results.size(); ++i) {
        if (!SameBits(alone_results[i], results[i].Rows(row, row + 1))) {
          return false;
        }
      }
    }
  }
  return true;
}

absl::Status RowGraph::SelfCheck(const ExecutionContext& context, int64_t num_tokens) {
  BW_ASSIGN_OR_RETURN(const bool same, RunsTogetherAsAlone(context, num_tokens));
  if (!same) {
    body_->ForceRowByRow("the self-check found that stacked rows change bits");
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
