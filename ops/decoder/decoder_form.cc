// FormDecoder: an exported decoder becomes a step graph or one loop over the target, by lists of
// passes.
//
//   before                                         after
//   a step: token, states -> logits, states         the same, with states [rows, ...]
//   one loop over the target, logits its output     the same
//   layers over the target, or several loops        one loop over the target whose body is a step
//
// 1. kDecoderPasses, for every decoder: constant folding, and loops of one iteration are replaced
//    by their bodies.
// 2. FindLoop decides which form the graph has: kNone, the only loop, or kSeveral.
// 3. kStepPasses for a step graph; kLoopPasses for a decoder that is one loop; JoinDecoder with
//    kTargetPasses for other decoders. JoinDecoder tries both axes of the tokens as time, since
//    exports have [rows, time] or [time, rows], and gives attention up where it cannot be computed
//    step by step.
// 4. FindStateResult pairs each input that is a state with its result, by the configuration or by
//    the variable's name, and CheckState compares their types and shapes.
//
// A pass that cannot do its part returns an error that names the layer; the file is then refused.
#include "ops/decoder/decoder_form.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "ops/decoder/step_form.h"
#include "ops/decoder/step_inputs.h"
#include "ops/decoder/target_loop.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

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
    // A declared batch of 1 becomes dynamic later; any other extent must agree.
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

// Loops that run exactly once leave their bodies in their places (ops/decoder/step_form.h).
absl::StatusOr<bool> InlineLoops(Graph& graph, GraphInfo& info, const PassContext& context) {
  return TakeChanged(InlineSingleIterations(graph, &info), graph, info, context);
}

// before: states [layers, rows, ..] and their results; after: [rows, layers, ..], with transposes
// inside (ops/decoder/step_form.h).
absl::StatusOr<bool> MoveStatesRowsFirst(Graph& graph, GraphInfo& info,
                                         const PassContext& context) {
  const DecoderPorts& ports = context.decoder->ports;
  const int tokens = TokenParameter(graph, ports);
  std::vector<StepState> states;
  for (size_t i = 0; tokens >= 0 && i < graph.parameters.size(); ++i) {
    BW_ASSIGN_OR_RETURN(const int result, FindStateResult(graph, ports, i));
    if (result >= 0 && CountsRowsSecond(graph, tokens, static_cast<int>(i))) {
      states.push_back({static_cast<int>(i), result});
      context.decoder->moved_states->push_back(PortName(graph, graph.parameters[i]));
    }
  }
  if (states.empty()) {
    return false;
  }
  MoveRowsFirst(graph, states);
  BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  return true;
}

// FoldShapes with the rows of all inputs as one extent.
absl::StatusOr<bool> FoldStepShapes(Graph& graph, GraphInfo& info, const PassContext& context) {
  const DecoderPorts& ports = context.decoder->ports;
  return FoldShapes(graph, info,
                    {context.operators, StepRowAxes(graph, ports, TokenParameter(graph, ports))});
}

// JoinStateUpdates of all states. Errors of configured names are left to those who read them.
absl::StatusOr<bool> JoinStepUpdates(Graph& graph, GraphInfo& info, const PassContext& context) {
  PassContext with_states{context.operators};
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const absl::StatusOr<int> result = FindStateResult(graph, context.decoder->ports, i);
    if (result.ok() && *result >= 0) {
      with_states.states.push_back(
          {graph.parameters[i], graph.results[static_cast<size_t>(*result)]});
    }
  }
  return JoinStateUpdates(graph, info, with_states);
}

// before: recurrent layers over the target, and layers around them; after: one Loop over the target
// whose body is the whole step (ops/decoder/target_loop.h).
absl::StatusOr<bool> JoinTarget(Graph& graph, GraphInfo& info, const PassContext& context) {
  const DecoderContext& decoder = *context.decoder;
  std::vector<int> results;  // as nodes, which folding has renumbered
  for (const int output : decoder.outputs) {
    results.push_back(graph.results[static_cast<size_t>(output)]);
  }
  BW_ASSIGN_OR_RETURN(graph, JoinTargetLoop(graph, info, context.operators,
                                            graph.parameters[static_cast<size_t>(decoder.tokens)],
                                            decoder.time_axis, results));
  BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  return true;
}

// Passes for every decoder.
constexpr Pass kDecoderPasses[] = {
    &FoldShapes,   // constant folding, without knowing which axes count rows
    &InlineLoops,  // loop inlining: a loop over one token is its body
};

// Passes for a step graph: a graph without a loop over the target.
constexpr Pass kStepPasses[] = {
    &DropBeamIndex,        // states in the order of their rows
    &TakeOneToken,         // one token a step; caches start empty
    &AddMasks,             // a mask over a cache is computed
    &AddStepNumbers,       // the number of the step is a state
    &MoveStatesRowsFirst,  // states [rows, layers, ..]
    &FoldStepShapes,       // constant folding, with the rows as one extent
    &KeepComputedCaches,   // caches hold what attention reads of them
    &JoinStepUpdates,      // fusion of decay, delta rule, sum and read of a matrix state
};

// Passes for a decoder with one loop over the target that is the whole step.
constexpr Pass kLoopPasses[] = {
    &FoldShapes,  // constant folding, with the rows as one extent
};

// Passes for other decoders over the whole target.
constexpr Pass kTargetPasses[] = {
    &FoldShapes,  // constant folding, with the rows as one extent
    &JoinTarget,  // loop fusion: all layers over the target become one loop
    &FoldShapes,  // constant folding, in the joined loop as well
};

// A decoder over the whole target, as an export left it, made into one loop: its time axis is the
// first one for which the passes succeed. Unimplemented names, for each axis of the tokens, the
// layer that can't be moved into the step.
absl::StatusOr<DecoderForm> JoinDecoder(const Graph& graph, const GraphInfo& info,
                                        DecoderContext decoder) {
  const Node& parameter = graph.node(graph.parameters[static_cast<size_t>(decoder.tokens)]);
  const PartialShape& shape = parameter.outputs[0].shape;
  std::string faults;
  std::string last_fault;
  for (const int time_axis : {1, 0}) {
    if (shape.has_rank() && time_axis >= shape.rank()) {
      continue;
    }
    decoder.time_axis = time_axis;
    PassContext context{Operators(), DecoderRowAxes(graph, decoder.tokens, 1 - time_axis)};
    context.decoder = &decoder;
    DecoderForm joined{graph, info, -1, true, {}};
    const absl::Status status =
        RunPasses(kTargetPasses, joined.graph, joined.info, context).status();
    if (status.ok()) {
      joined.loop_node = joined.graph.node(joined.graph.results[0]).inputs[0].node;
      return joined;
    }
    const std::string fault(status.message());
    if (fault == last_fault) {
      return absl::UnimplementedError(fault);  // whichever axis it is
    }
    last_fault = fault;
    absl::StrAppend(&faults, faults.empty() ? "" : "; ", "with the time on axis ", time_axis,
                    " of '", PortName(graph, graph.parameters[static_cast<size_t>(decoder.tokens)]),
                    "': ", fault);
  }
  return absl::UnimplementedError(faults);
}

}  // namespace

absl::Status LeaveTheStep(Graph& graph) {
  BW_ASSIGN_OR_RETURN(GraphInfo info, InferGraph(graph, Operators()));
  constexpr Pass kPasses[] = {&InlineLoops, &DropBeamIndex};
  return RunPasses(kPasses, graph, info, {Operators()}).status();
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
  DecoderContext decoder{ports, &form.moved_states};
  PassContext context{Operators()};
  context.decoder = &decoder;
  BW_ASSIGN_OR_RETURN(form.info, InferGraph(graph, Operators()));
  BW_RETURN_IF_ERROR(RunPasses(kDecoderPasses, graph, form.info, context).status());
  BW_ASSIGN_OR_RETURN(form.loop_node, FindLoop(graph, ports));
  if (form.loop_node == kSeveral) {
    BW_ASSIGN_OR_RETURN(decoder.tokens, FindTargetParameter(graph, ports));
    BW_ASSIGN_OR_RETURN(const int logits,
                        FindResult(graph, "decoder.logits_output", ports.logits_output));
    BW_ASSIGN_OR_RETURN(const int attention, FindAttention(graph, ports));
    decoder.outputs = {logits};
    if (attention >= 0) {
      decoder.outputs.push_back(attention);
    }
    absl::StatusOr<DecoderForm> joined = JoinDecoder(graph, form.info, decoder);
    if (!joined.ok() && attention >= 0) {
      // The decoder is usable without attention that can't be computed step by step.
      decoder.outputs = {logits};
      joined = JoinDecoder(graph, form.info, decoder);
    }
    return joined;
  }
  if (form.loop_node == kNone) {
    BW_RETURN_IF_ERROR(RunPasses(kStepPasses, graph, form.info, context).status());
    form.graph = std::move(graph);
    return form;
  }
  const auto [tokens, token_axis] = SlicedParameter(graph, form.loop_node);
  context.row_axes = DecoderRowAxes(graph, tokens, token_axis);
  BW_RETURN_IF_ERROR(RunPasses(kLoopPasses, graph, form.info, context).status());
  BW_ASSIGN_OR_RETURN(form.loop_node, FindLoop(graph, ports));
  form.graph = std::move(graph);
  return form;
}

}  // namespace beamwright::ops
