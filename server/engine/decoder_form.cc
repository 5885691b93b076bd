#include "server/engine/decoder_form.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/shape_folding.h"
#include "ops/decoder/beam_index.h"
#include "ops/decoder/join_decoder.h"
#include "ops/decoder/step_form.h"
#include "ops/loop/operators.h"

namespace beamwright::engine {
namespace {

using ops::Graph;
using ops::LoopInput;

constexpr int kNone = -1;
constexpr int kSeveral = -2;

// Whether a loop reads its slices from Parameters and gives the logits itself.
bool IsWholeDecoder(const Graph& graph, const v1::DecoderConfig& config, int loop_node) {
  const ops::Node& node = graph.node(loop_node);
  for (const LoopInput& rule : node.loop->inputs) {
    if (rule.kind == LoopInput::Kind::kSliced &&
        graph.node(node.inputs[static_cast<size_t>(rule.input)].node).op != "Parameter") {
      return false;
    }
  }
  const absl::StatusOr<int> logits = FindResult(graph, "", config.logits_output());
  return !logits.ok() ||
         graph.node(graph.results[static_cast<size_t>(*logits)]).inputs[0].node == loop_node;
}

// Node of the loop over the target sequence; kNone for a step graph, kSeveral where layers around
// the loop, or further loops, have to become part of its body first.
absl::StatusOr<int> FindLoop(const Graph& graph, const v1::DecoderConfig& config) {
  std::vector<int> loops;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ops::Node& node = graph.nodes[i];
    if (node.op == "Loop" && (config.loop().empty() || node.name == config.loop())) {
      loops.push_back(static_cast<int>(i));
    }
  }
  if (loops.empty() && !config.loop().empty()) {
    return Invalid("decoder.loop: the graph has no loop '", config.loop(), "'");
  }
  if (loops.size() > 1 && !config.loop().empty()) {
    return Invalid("decoder.loop: the graph has ", loops.size(), " loops '", config.loop(), "'");
  }
  const bool is_step =
      std::any_of(config.states().begin(), config.states().end(),
                  [](const v1::StateConfig& state) { return !state.output().empty(); });
  if (loops.empty() || (is_step && config.loop().empty())) {
    return kNone;
  }
  return loops.size() == 1 && IsWholeDecoder(graph, config, loops[0]) ? loops[0] : kSeveral;
}

// The Parameter that a loop slices (index into graph.parameters, -1: none) and the axis of it that
// counts rows.
std::pair<int, int> SlicedParameter(const Graph& graph, int loop_node) {
  const ops::Node& node = graph.node(loop_node);
  for (const LoopInput& rule : node.loop->inputs) {
    if (rule.kind == LoopInput::Kind::kSliced) {
      const int source = node.inputs[static_cast<size_t>(rule.input)].node;
      const auto at = std::find(graph.parameters.begin(), graph.parameters.end(), source);
      if (at != graph.parameters.end()) {
        return {static_cast<int>(at - graph.parameters.begin()), rule.axis == 0 ? 1 : 0};
      }
    }
  }
  return {-1, 0};
}

// The Parameter of a whole decoder that takes the target, as an index into graph.parameters: the
// named one, or the only one of integers.
absl::StatusOr<int> FindTargetParameter(const Graph& graph, const v1::DecoderConfig& config) {
  std::vector<int> found;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const ops::DType dtype = graph.node(graph.parameters[i]).outputs[0].dtype;
    const std::string name = PortName(graph, graph.parameters[i]);
    const bool integers = dtype == ops::DType::kI64 || dtype == ops::DType::kI32;
    if (config.token_input().empty() ? integers : name == config.token_input()) {
      found.push_back(static_cast<int>(i));
      names.push_back(name);
    }
  }
  if (found.size() == 1) {
    return found[0];
  }
  if (!config.token_input().empty()) {
    return Invalid("decoder.token_input: the decoder has no input '", config.token_input(), "'");
  }
  return Invalid("decoder.token_input: must name the input that takes the tokens; of integers are ",
                 names.empty() ? "none" : absl::StrCat("'", absl::StrJoin(names, "', '"), "'"));
}

absl::StatusOr<int> NamedResult(const Graph& graph, const std::string& field,
                                const std::string& name, const char* whose = "decoder") {
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    names.push_back(absl::StrCat("'", PortName(graph, graph.results[i]), "'"));
    if (!name.empty() && PortName(graph, graph.results[i]) == name) {
      return static_cast<int>(i);
    }
  }
  const std::string known = absl::StrJoin(names, ", ");
  return name.empty()
             ? Invalid(field, ": is not set; results are ", known)
             : Invalid(field, ": the ", whose, " has no result '", name, "'; it has ", known);
}

// Of a variable (ReadValue and Assign), the result of the same name; -1 if there is none.
int VariableResult(const Graph& graph, const std::string& input) {
  const absl::StatusOr<int> result = NamedResult(graph, "", input);
  if (!result.ok()) {
    return -1;
  }
  // An input that is handed on as it is (memory) is no state.
  const ops::ValueId value = graph.node(graph.results[static_cast<size_t>(*result)]).inputs[0];
  return graph.node(value.node).op == "Parameter" ? -1 : *result;
}

// Whether a state can go on as a result: what is known of both agrees.
absl::Status CheckState(const Graph& graph, int parameter, int result) {
  const ops::ValueInfo& state = graph.node(parameter).outputs[0];
  const ops::ValueInfo& next = graph.info(graph.node(result).inputs[0]);
  bool fits = state.dtype == next.dtype;
  if (state.shape.has_rank() && next.shape.has_rank()) {
    fits = fits && state.shape.rank() == next.shape.rank();
    // A batch of 1 that a file declares is opened later on; what is not 1 was meant.
    for (int axis = 0; fits && axis < state.shape.rank(); ++axis) {
      const int64_t from = state.shape.dim(axis);
      const int64_t to = next.shape.dim(axis);
      fits = from == to || from <= 1 || to <= 1;
    }
  }
  return fits ? absl::OkStatus()
              : Invalid("result '", PortName(graph, result), "' is ", ops::Name(next.dtype),
                        next.shape.ToString(), "; input '", PortName(graph, parameter), "' is ",
                        ops::Name(state.dtype), state.shape.ToString());
}

// Brings a step graph into the form that the engine steps; errors of configured names are left to
// those who read them.
absl::Status FormStep(const v1::DecoderConfig& config, DecoderForm& form) {
  Graph& graph = form.graph;
  if (std::optional<Graph> without = ops::WithoutBeamIndex(graph)) {
    graph = *std::move(without);
    BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, ops::Operators()));
  }
  int tokens = -1;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    tokens =
        PortName(graph, graph.parameters[i]) == config.token_input() ? static_cast<int>(i) : tokens;
  }
  std::vector<ops::StepState> states;
  for (size_t i = 0; tokens >= 0 && i < graph.parameters.size(); ++i) {
    BW_ASSIGN_OR_RETURN(const int result, FindStateResult(graph, config, i));
    if (result >= 0 && ops::CountsRowsSecond(graph, tokens, static_cast<int>(i))) {
      states.push_back({static_cast<int>(i), result});
      form.moved_states.push_back(PortName(graph, graph.parameters[i]));
    }
  }
  if (!states.empty()) {
    ops::MoveRowsFirst(graph, states);
    BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, ops::Operators()));
  }
  const int token_axis =
      tokens < 0 ? 0
                 : ops::TokenRowAxis(
                       graph.node(graph.parameters[static_cast<size_t>(tokens)]).outputs[0].shape);
  return FoldShapes(graph, form.info, ops::Operators(),
                    ops::DecoderRowAxes(graph, tokens, token_axis));
}

}  // namespace

absl::StatusOr<int> FindStateResult(const Graph& graph, const v1::DecoderConfig& config,
                                    size_t parameter) {
  const std::string input = PortName(graph, graph.parameters[parameter]);
  const int variable = VariableResult(graph, input);
  for (int i = 0; i < config.states_size(); ++i) {
    const v1::StateConfig& state = config.states(i);
    if (state.input() != input) {
      continue;
    }
    const std::string field = absl::StrCat("decoder.states[", i, "].output");
    int result = variable;
    if (!state.output().empty() || variable < 0) {
      BW_ASSIGN_OR_RETURN(result, NamedResult(graph, field, state.output()));
    }
    BW_RETURN_IF_ERROR(
        Annotate(CheckState(graph, graph.parameters[parameter], graph.results[result]), field));
    return result;
  }
  return variable;
}

absl::StatusOr<int> FindResult(const Graph& graph, const std::string& field,
                               const std::string& name, const char* whose) {
  return name.empty() && graph.results.size() == 1 ? absl::StatusOr<int>(0)
                                                   : NamedResult(graph, field, name, whose);
}

absl::StatusOr<int> FindAttention(const Graph& graph, const v1::DecoderConfig& config) {
  return config.attention_output().empty()
             ? absl::StatusOr<int>(-1)
             : FindResult(graph, "decoder.attention_output", config.attention_output());
}

absl::StatusOr<DecoderForm> FormDecoder(Graph graph, const v1::DecoderConfig& config) {
  DecoderForm form;
  BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, ops::Operators()));
  BW_RETURN_IF_ERROR(FoldShapes(graph, form.info, ops::Operators()));
  if (std::optional<Graph> inlined = ops::InlineSingleIterations(graph)) {
    graph = *std::move(inlined);
    BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, ops::Operators()));
  }
  BW_ASSIGN_OR_RETURN(form.loop_node, FindLoop(graph, config));
  if (form.loop_node == kSeveral) {
    BW_ASSIGN_OR_RETURN(const int tokens, FindTargetParameter(graph, config));
    BW_ASSIGN_OR_RETURN(const int logits,
                        FindResult(graph, "decoder.logits_output", config.logits_output()));
    BW_ASSIGN_OR_RETURN(const int attention, FindAttention(graph, config));
    absl::StatusOr<ops::JoinedDecoder> joined =
        JoinDecoder(graph, form.info, ops::Operators(), tokens, logits, attention);
    if (!joined.ok() && attention >= 0) {
      // Attention that can't be had step by step is no reason not to decode.
      joined = JoinDecoder(graph, form.info, ops::Operators(), tokens, logits);
    }
    BW_RETURN_IF_ERROR(joined.status());
    return DecoderForm{std::move(joined->graph), std::move(joined->info), joined->loop_node, {}};
  }
  if (form.loop_node == kNone) {
    form.graph = std::move(graph);
    BW_RETURN_IF_ERROR(FormStep(config, form));
    return form;
  }
  const auto [tokens, token_axis] = SlicedParameter(graph, form.loop_node);
  BW_RETURN_IF_ERROR(
      FoldShapes(graph, form.info, ops::Operators(), DecoderRowAxes(graph, tokens, token_axis)));
  BW_ASSIGN_OR_RETURN(form.loop_node, FindLoop(graph, config));
  form.graph = std::move(graph);
  return form;
}

}  // namespace beamwright::engine
