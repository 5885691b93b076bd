#include "ops/decoder/decoder_form.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "ops/compile/shape_folding.h"
#include "ops/compile/state_updates.h"
#include "ops/decoder/beam_index.h"
#include "ops/decoder/join_decoder.h"
#include "ops/decoder/step_form.h"
#include "ops/decoder/step_inputs.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

constexpr int kNone = -1;
constexpr int kSeveral = -2;

// Whether a loop reads its slices from Parameters and gives the logits itself.
bool IsWholeDecoder(const Graph& graph, const DecoderPorts& ports, int loop_node) {
  const Node& node = graph.node(loop_node);
  for (const LoopInput& rule : node.loop->inputs) {
    if (rule.kind == LoopInput::Kind::kSliced &&
        graph.node(node.inputs[static_cast<size_t>(rule.input)].node).op != "Parameter") {
      return false;
    }
  }
  const absl::StatusOr<int> logits = FindResult(graph, "", ports.logits_output);
  return !logits.ok() ||
         graph.node(graph.results[static_cast<size_t>(*logits)]).inputs[0].node == loop_node;
}

// Node of the loop over the target sequence; kNone for a step graph, kSeveral where layers around
// the loop, or further loops, have to become part of its body first.
absl::StatusOr<int> FindLoop(const Graph& graph, const DecoderPorts& ports) {
  std::vector<int> loops;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == "Loop" && (ports.loop.empty() || node.name == ports.loop)) {
      loops.push_back(static_cast<int>(i));
    }
  }
  if (loops.empty() && !ports.loop.empty()) {
    return Invalid("decoder.loop: the graph has no loop '", ports.loop, "'");
  }
  if (loops.size() > 1 && !ports.loop.empty()) {
    return Invalid("decoder.loop: the graph has ", loops.size(), " loops '", ports.loop, "'");
  }
  const bool is_step = std::any_of(ports.states.begin(), ports.states.end(),
                                   [](const StatePorts& state) { return !state.output.empty(); });
  if (loops.empty() || (is_step && ports.loop.empty())) {
    return kNone;
  }
  return loops.size() == 1 && IsWholeDecoder(graph, ports, loops[0]) ? loops[0] : kSeveral;
}

// The Parameter that a loop slices (index into graph.parameters, -1: none) and the axis of it that
// counts rows.
std::pair<int, int> SlicedParameter(const Graph& graph, int loop_node) {
  const Node& node = graph.node(loop_node);
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
absl::StatusOr<int> FindTargetParameter(const Graph& graph, const DecoderPorts& ports) {
  std::vector<int> found;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const DType dtype = graph.node(graph.parameters[i]).outputs[0].dtype;
    const std::string name = PortName(graph, graph.parameters[i]);
    const bool integers = dtype == DType::kI64 || dtype == DType::kI32;
    if (ports.token_input.empty() ? integers : name == ports.token_input) {
      found.push_back(static_cast<int>(i));
      names.push_back(name);
    }
  }
  if (found.size() == 1) {
    return found[0];
  }
  if (!ports.token_input.empty()) {
    return Invalid("decoder.token_input: the decoder has no input '", ports.token_input, "'");
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

// A state may become longer by one in each step, if the graph proves it.
absl::Status CheckGrowth(const Graph& graph, int parameter, int result) {
  const ValueId next = graph.node(result).inputs[0];
  const int join = JoinOfState(graph, parameter);
  if (join != next.node || GrowingAxis(graph, parameter, next) >= 0) {
    return absl::OkStatus();
  }
  const Node& last = graph.node(join);
  std::vector<std::string> shapes;
  for (const ValueId input : last.inputs) {
    shapes.push_back(graph.info(input).shape.ToString());
  }
  return absl::UnimplementedError(absl::StrCat(
      "state '", PortName(graph, parameter), "' grows: ", Describe(last), " joins ",
      absl::StrJoin(shapes, " and "),
      " in each step; a state may grow by one, on an axis that the file leaves open: export the "
      "step for one token (tokens [rows, 1]), with that axis of the state dynamic"));
}

// Whether a state can go on as a result: what is known of both agrees.
absl::Status CheckState(const Graph& graph, int parameter, int result) {
  BW_RETURN_IF_ERROR(CheckGrowth(graph, parameter, result));
  const ValueInfo& state = graph.node(parameter).outputs[0];
  const ValueInfo& next = graph.info(graph.node(result).inputs[0]);
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
              : Invalid("result '", PortName(graph, result), "' is ", Name(next.dtype),
                        next.shape.ToString(), "; input '", PortName(graph, parameter), "' is ",
                        Name(state.dtype), state.shape.ToString());
}

// Puts a changed graph, if there is one, in the place of `graph`, and infers it anew.
absl::Status Become(std::optional<Graph> changed, Graph& graph, GraphInfo& info) {
  if (changed.has_value()) {
    graph = *std::move(changed);
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, Operators()));
  }
  return absl::OkStatus();
}

// Brings a step graph into the form that is compiled; errors of configured names are left to
// those who read them.
absl::Status FormStep(const DecoderPorts& ports, DecoderForm& form) {
  Graph& graph = form.graph;
  BW_RETURN_IF_ERROR(Become(WithoutBeamIndex(graph), graph, form.info));
  int tokens = -1;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    tokens =
        PortName(graph, graph.parameters[i]) == ports.token_input ? static_cast<int>(i) : tokens;
  }
  if (tokens >= 0) {
    BW_RETURN_IF_ERROR(GiveStepInputs(ports, tokens, graph, form.info));
  }
  std::vector<StepState> states;
  for (size_t i = 0; tokens >= 0 && i < graph.parameters.size(); ++i) {
    BW_ASSIGN_OR_RETURN(const int result, FindStateResult(graph, ports, i));
    if (result >= 0 && CountsRowsSecond(graph, tokens, static_cast<int>(i))) {
      states.push_back({static_cast<int>(i), result});
      form.moved_states.push_back(PortName(graph, graph.parameters[i]));
    }
  }
  if (!states.empty()) {
    MoveRowsFirst(graph, states);
    BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, Operators()));
  }
  BW_RETURN_IF_ERROR(FoldShapes(graph, form.info, Operators(), StepRowAxes(graph, ports, tokens)));
  BW_RETURN_IF_ERROR(KeepComputedCaches(ports, graph, form.info));
  std::vector<CarriedValue> carried;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const absl::StatusOr<int> result = FindStateResult(graph, ports, i);
    if (result.ok() && *result >= 0) {
      const int node = graph.results[static_cast<size_t>(*result)];
      carried.push_back({{graph.parameters[i], 0}, graph.node(node).inputs[0]});
    }
  }
  return JoinStateUpdates(carried, graph, form.info, Operators());
}

}  // namespace

absl::Status LeaveTheStep(Graph& graph) {
  BW_ASSIGN_OR_RETURN(GraphInfo info, InferGraph(graph, Operators()));
  BW_RETURN_IF_ERROR(Become(InlineSingleIterations(graph, &info), graph, info));
  return Become(WithoutBeamIndex(graph), graph, info);
}

absl::StatusOr<int> FindStateResult(const Graph& graph, const DecoderPorts& ports,
                                    size_t parameter) {
  const std::string input = PortName(graph, graph.parameters[parameter]);
  const int variable = VariableResult(graph, input);
  for (size_t i = 0; i < ports.states.size(); ++i) {
    const StatePorts& state = ports.states[i];
    if (state.input != input) {
      continue;
    }
    const std::string field = absl::StrCat("decoder.states[", i, "].output");
    int result = variable;
    const int node = graph.parameters[parameter];
    if (CountsSteps(graph, ports, node) || MasksCache(graph, ports, node)) {
      return -1;
    }
    if (!state.output.empty() || variable < 0) {
      BW_ASSIGN_OR_RETURN(result, NamedResult(graph, field, state.output));
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

const ValueInfo& InfoOfResult(const Graph& graph, int result) {
  return graph.info(graph.node(graph.results[static_cast<size_t>(result)]).inputs[0]);
}

absl::StatusOr<int> FindAttention(const Graph& graph, const DecoderPorts& ports) {
  return ports.attention_output.empty()
             ? absl::StatusOr<int>(-1)
             : FindResult(graph, "decoder.attention_output", ports.attention_output);
}

absl::StatusOr<DecoderForm> FormDecoder(Graph graph, const DecoderPorts& ports) {
  DecoderForm form;
  BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, Operators()));
  BW_RETURN_IF_ERROR(FoldShapes(graph, form.info, Operators()));
  BW_RETURN_IF_ERROR(Become(InlineSingleIterations(graph, &form.info), graph, form.info));
  BW_ASSIGN_OR_RETURN(form.loop_node, FindLoop(graph, ports));
  if (form.loop_node == kSeveral) {
    BW_ASSIGN_OR_RETURN(const int tokens, FindTargetParameter(graph, ports));
    BW_ASSIGN_OR_RETURN(const int logits,
                        FindResult(graph, "decoder.logits_output", ports.logits_output));
    BW_ASSIGN_OR_RETURN(const int attention, FindAttention(graph, ports));
    absl::StatusOr<JoinedDecoder> joined =
        JoinDecoder(graph, form.info, Operators(), tokens, logits, attention);
    if (!joined.ok() && attention >= 0) {
      // Attention that can't be had step by step is no reason not to decode.
      joined = JoinDecoder(graph, form.info, Operators(), tokens, logits);
    }
    BW_RETURN_IF_ERROR(joined.status());
    return DecoderForm{
        std::move(joined->graph), std::move(joined->info), joined->loop_node, true, {}};
  }
  if (form.loop_node == kNone) {
    form.graph = std::move(graph);
    BW_RETURN_IF_ERROR(FormStep(ports, form));
    return form;
  }
  const auto [tokens, token_axis] = SlicedParameter(graph, form.loop_node);
  BW_RETURN_IF_ERROR(
      FoldShapes(graph, form.info, Operators(), DecoderRowAxes(graph, tokens, token_axis)));
  BW_ASSIGN_OR_RETURN(form.loop_node, FindLoop(graph, ports));
  form.graph = std::move(graph);
  return form;
}

}  // namespace beamwright::ops
