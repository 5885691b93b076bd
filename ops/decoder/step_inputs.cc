// From names in a decoder's configuration to nodes of a step graph, and the passes that need them.
//
// A state of the configuration is one of four things, by its ports:
//
//   a cache that grows       a join reads its input, and its output hands the join on
//   a mask over that cache   its output is the cache's, its input is [rows, places]
//   the number of the step   it has no output, and takes integers
//   a state of fixed shape   anything else with an output
//
// What the passes do, on the step of an attention decoder with a cache of keys [rows, places,
// width], exported by transformers:
//
//   TakeOneToken     tokens [rows, n] become [rows, 1]; Range(n, n + 1) becomes n; caches that
//   start with nothing are
//                    declared to be equally long
//   AddMasks         an input attention_mask [rows, places + 1] is computed from the cache, and
//   read no longer AddStepNumbers   an input that takes a number of the step for each row gets a
//   result, number + 1: a state KeepComputedCaches   what the step computes of each cached key
//   alone is cached instead of the key
#include "ops/decoder/step_inputs.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ops/base/status.h"
#include "ops/compile/extents.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/growing_states.h"
#include "ops/decoder/step_form.h"
#include "ops/loop/operators.h"

namespace beamwright::ops {
namespace {

// The node of the Parameter or Result of this name; -1: none.
int NodeNamed(const Graph& graph, const std::vector<int>& ports, const std::string& name) {
  const auto found =
      absl::c_find_if(ports, [&](int node) { return PortName(graph, node) == name; });
  return found == ports.end() ? -1 : *found;
}

const PartialShape& ShapeOf(const Graph& graph, int parameter) {
  return graph.node(parameter).outputs[0].shape;
}

// Whether the number of the step is one for each row: [rows, 1], or [rows] as the tokens (an index
// into graph.parameters).
bool CountsByRow(const Graph& graph, int tokens, int parameter) {
  const PartialShape& shape = ShapeOf(graph, parameter);
  const PartialShape& of_tokens = ShapeOf(graph, graph.parameters[static_cast<size_t>(tokens)]);
  return shape.has_rank() &&
         ((shape.rank() == 2 && TokenRowAxis(of_tokens) == 0) ||
          (shape.rank() == 1 && shape.dim(0) < 0 && of_tokens.has_rank() && of_tokens.rank() == 1));
}

struct Cache {
  int parameter = -1;
  int axis = -1;  // on which it grows
  float constant = 0;
};

// The cache that a mask belongs to; nothing found: axis -1.
//
// The mask's state names an output; so does the state of the cache that it lies over, with the same
// name.
Cache CacheOf(const Graph& graph, const DecoderPorts& ports, int mask) {
  const std::string name = PortName(graph, mask);
  const auto own =
      absl::c_find_if(ports.states, [&](const StatePorts& state) { return state.input == name; });
  if (own == ports.states.end() || own->output.empty()) {
    return {};
  }
  const int result = NodeNamed(graph, graph.results, own->output);
  for (const StatePorts& other : ports.states) {
    const int parameter = NodeNamed(graph, graph.parameters, other.input);
    if (result >= 0 && parameter >= 0 && parameter != mask && other.output == own->output) {
      return {parameter, GrowingAxis(graph, parameter, graph.node(result).inputs[0]),
              own->constant};
    }
  }
  return {};
}

bool HasOneElement(const ValueInfo& info) {
  return info.shape.is_static() && NumElements(info.shape.dims()) == 1;
}

// What a number is apart from its type and the axes of 1 around it.
ValueId Unconverted(const Graph& graph, ValueId value) {
  while (true) {
    const Node& node = graph.node(value.node);
    const bool reshapes = node.op == "Reshape" || node.op == "Squeeze" || node.op == "Unsqueeze";
    if (node.op != "Convert" && (!reshapes || !HasOneElement(graph.info(value)) ||
                                 !HasOneElement(graph.info(node.inputs[0])))) {
      return value;
    }
    value = node.inputs[0];
  }
}

bool IsOne(const GraphInfo& info, ValueId value) {
  const Tensor& known =
      info.constants[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  const absl::StatusOr<std::vector<int64_t>> values =
      known.has_value() && known.num_elements() == 1 ? ToInt64(known) : absl::NotFoundError("");
  return values.ok() && values->front() == 1;
}

// Range(n, n + 1, 1): transformers' positions of the tokens of a step, which is n alone.
bool IsOneNumber(const Graph& graph, const GraphInfo& info, const Node& node) {
  if (node.op != "Range" || !IsInteger(node.outputs[0].dtype) || !IsOne(info, node.inputs[2])) {
    return false;
  }
  const ValueId start = Unconverted(graph, node.inputs[0]);
  const Node& stop = graph.node(Unconverted(graph, node.inputs[1]).node);
  return stop.op == "Add" &&
         ((Unconverted(graph, stop.inputs[0]) == start && IsOne(info, stop.inputs[1])) ||
          (Unconverted(graph, stop.inputs[1]) == start && IsOne(info, stop.inputs[0])));
}

// before: Range(n, n + 1, 1) [?], whose extent inference does not know. after: Reshape(n, [1]), in
// the type of the Range.
absl::Status TakeOneNumber(const PassContext& context, Graph& graph, GraphInfo& info) {
  GraphCopy copy(graph);
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    if (!IsOneNumber(graph, info, graph.nodes[i])) {
      copy.Keep(index);
      continue;
    }
    any = true;
    ValueId number = AppendWithList(copy.to(), "Reshape", graph.nodes[i].name,
                                    copy.Of(graph.nodes[i].inputs[0]), {1});
    const DType dtype = graph.nodes[i].outputs[0].dtype;
    if (graph.info(graph.nodes[i].inputs[0]).dtype != dtype) {
      Attributes to;
      to.Set("destination_type", std::string(Name(dtype)));
      number =
          AppendNode(copy.to(), {"Convert", graph.nodes[i].name, std::move(to), {number}, {{}}});
    }
    copy.Replace({index, 0}, number);
  }
  return any ? TakeChanged(std::move(copy).Finish(), graph, info, context).status()
             : absl::OkStatus();
}

struct GrowingState {
  CarriedNodes nodes;
  int axis = -1;
};

// States that start with a constant and grow: with nothing.
std::vector<GrowingState> StatesFromNothing(const DecoderPorts& ports, const Graph& graph) {
  std::vector<GrowingState> found;
  for (const StatePorts& state : ports.states) {
    const int parameter = NodeNamed(graph, graph.parameters, state.input);
    const int result = NodeNamed(graph, graph.results, state.output);
    if (parameter < 0 || result < 0 || std::isnan(state.constant)) {
      continue;
    }
    const int axis = GrowingAxis(graph, parameter, graph.node(result).inputs[0]);
    if (axis >= 0) {
      found.push_back({{parameter, result}, axis});
    }
  }
  return found;
}

// [rows, places] of a constant, for a cache [rows, ...]: one place more than the cache has before
// the step. Made of the cache's own extents, so that it has its rows.
ValueId MaskOver(const Cache& cache, ValueId value, DType dtype, Graph& graph) {
  const auto add = [&graph](const char* op, std::vector<ValueId> inputs, Attributes attributes) {
    return AppendNode(graph, {op, "mask", std::move(attributes), std::move(inputs), {{}}});
  };
  Attributes along_places;
  along_places.Set("axis", int64_t{1});
  Attributes along_list;
  along_list.Set("axis", int64_t{0});
  const ValueId zero = AppendConstant(graph, "mask", Tensor::Scalar(int64_t{0}));
  const ValueId each = AppendConstant(
      graph, "mask", Convert(Tensor::Scalar(cache.constant), dtype).value_or(Tensor()));
  const ValueId extents = add("ShapeOf", {value}, {});
  const ValueId places =
      add("Gather", {extents, AppendInts(graph, "mask", {0, cache.axis}), zero}, {});
  const ValueId rows = add("Gather", {extents, AppendInts(graph, "mask", {0}), zero}, {});
  const ValueId one_place = add("Concat", {rows, AppendInts(graph, "mask", {1})}, along_list);
  return add("Concat",
             {add("Broadcast", {each, places}, {}), add("Broadcast", {each, one_place}, {})},
             along_places);
}

// One input that takes the number of the step.
//
// A number for all rows is filled in by the driver, which counts its steps. A number for each row,
// [rows] or [rows, 1], is a state: rows that join later are at other steps than those that run.
absl::Status AddCount(int parameter, int tokens, Graph& graph) {
  ValueInfo& info = graph.node(parameter).outputs[0];
  const int rank = info.shape.has_rank() ? info.shape.rank() : -1;
  const bool has_rows = CountsByRow(graph, tokens, parameter);
  if (!has_rows && (rank < 0 || rank > 1 || (rank == 1 && info.shape.dim(0) > 1))) {
    return Invalid("decoder.states: '", PortName(graph, parameter),
                   "' goes on with no output, and is ", info.shape.ToString(),
                   "; the number of a step is a scalar, [1], [rows] or [rows, 1]");
  }
  if (!has_rows) {
    info.shape = rank == 1 ? PartialShape({1}) : info.shape;
    return absl::OkStatus();
  }
  info.shape = rank == 2 ? PartialShape({PartialShape::kDynamic, 1}) : info.shape;
  const std::string name = PortName(graph, parameter);
  const ValueInfo counted{info.dtype, info.shape, {name}};
  BW_ASSIGN_OR_RETURN(Tensor one, Convert(Tensor::Scalar(int64_t{1}), info.dtype));
  const ValueId next =
      AppendNode(graph, {"Add",
                         "next step",
                         {},
                         {{parameter, 0}, AppendConstant(graph, "one step", std::move(one))},
                         {counted}});
  graph.nodes.push_back({"Result", name, {}, {next}, {}});
  graph.results.push_back(static_cast<int>(graph.nodes.size()) - 1);
  return absl::OkStatus();
}

}  // namespace

int VariableResult(const Graph& graph, const std::string& input) {
  for (size_t i = 0; i < graph.results.size(); ++i) {
    if (PortName(graph, graph.results[i]) == input) {
      // An input that is handed on as it is (memory) is not a state.
      const ValueId value = graph.node(graph.results[i]).inputs[0];
      return graph.node(value.node).op == "Parameter" ? -1 : static_cast<int>(i);
    }
  }
  return -1;
}

bool CountsSteps(const Graph& graph, const DecoderPorts& ports, int parameter) {
  const std::string name = PortName(graph, parameter);
  return IsInteger(graph.node(parameter).outputs[0].dtype) && VariableResult(graph, name) < 0 &&
         absl::c_any_of(ports.states, [&](const StatePorts& state) {
           return state.input == name && state.output.empty();
         });
}

bool MasksCache(const Graph& graph, const DecoderPorts& ports, int parameter) {
  const PartialShape& shape = ShapeOf(graph, parameter);
  const Cache cache = CacheOf(graph, ports, parameter);
  return shape.has_rank() && shape.rank() == 2 && cache.parameter >= 0 &&
         ShapeOf(graph, cache.parameter).has_rank() && ShapeOf(graph, cache.parameter).rank() > 2;
}

int JoinOfState(const Graph& graph, int parameter) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == "Concat" && node.inputs.size() > 1 &&
        absl::c_linear_search(node.inputs, ValueId{parameter, 0})) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<int> StepRowAxes(const Graph& graph, const DecoderPorts& ports, int tokens) {
  const int token_axis =
      tokens < 0 ? 0 : TokenRowAxis(ShapeOf(graph, graph.parameters[static_cast<size_t>(tokens)]));
  std::vector<int> axes = DecoderRowAxes(graph, tokens, token_axis);
  for (size_t i = 0; tokens >= 0 && i < axes.size(); ++i) {
    const int parameter = graph.parameters[i];
    if (static_cast<int>(i) != tokens && CountsSteps(graph, ports, parameter) &&
        !CountsByRow(graph, tokens, parameter)) {
      axes[i] = -1;
    }
  }
  return axes;
}

int TokenParameter(const Graph& graph, const DecoderPorts& ports) {
  int tokens = -1;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    tokens =
        PortName(graph, graph.parameters[i]) == ports.token_input ? static_cast<int>(i) : tokens;
  }
  return tokens;
}

// A step reads one token. The file of a step whose states grow often takes any number, and states
// grow by one only then.
absl::StatusOr<bool> TakeOneToken(Graph& graph, GraphInfo& info, const PassContext& context) {
  const DecoderPorts& ports = context.decoder->ports;
  const int tokens = TokenParameter(graph, ports);
  const bool grows = absl::c_any_of(ports.states, [&](const StatePorts& state) {
    const int parameter = NodeNamed(graph, graph.parameters, state.input);
    return parameter >= 0 && JoinOfState(graph, parameter) >= 0;
  });
  if (tokens < 0 || !grows) {
    return false;
  }
  PartialShape& shape = graph.node(graph.parameters[static_cast<size_t>(tokens)]).outputs[0].shape;
  if (shape.has_rank() && shape.rank() == 2 && shape.dim(0) < 0 && shape.dim(1) < 0) {
    shape = PartialShape({PartialShape::kDynamic, 1});
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  }
  const PassContext of_step{context.operators, StepRowAxes(graph, ports, tokens)};
  BW_RETURN_IF_ERROR(FoldShapes(graph, info, of_step).status());
  BW_RETURN_IF_ERROR(TakeOneNumber(context, graph, info));
  // Declares what is known of the extents of values, where masks hide it from inference.
  BW_RETURN_IF_ERROR(FoldShapes(graph, info, SourcesContext(graph, context.operators)).status());
  // They are equally long in each step.
  for (const GrowingState& state : StatesFromNothing(ports, graph)) {
    constexpr int64_t kLength = 0;
    ShareExtent(state.axis, kLength, graph.node(state.nodes.parameter));
  }
  return true;
}

absl::StatusOr<bool> AddMasks(Graph& graph, GraphInfo& info, const PassContext& context) {
  const DecoderPorts& ports = context.decoder->ports;
  if (TokenParameter(graph, ports) < 0) {
    return false;
  }
  std::map<int, Cache> masks;
  for (const int parameter : graph.parameters) {
    if (!MasksCache(graph, ports, parameter)) {
      continue;
    }
    const Cache cache = CacheOf(graph, ports, parameter);
    if (cache.axis < 0) {
      return Invalid("decoder.states: '", PortName(graph, parameter), "' has the output of state '",
                     PortName(graph, cache.parameter),
                     "', which does not grow by one a step; a mask is over a cache that does");
    }
    masks[parameter] = cache;
  }
  if (masks.empty()) {
    return false;
  }
  GraphCopy copy(graph);
  for (const int parameter : graph.parameters) {
    copy.Keep(parameter);
  }
  for (const auto& [parameter, cache] : masks) {
    const DType dtype = graph.node(parameter).outputs[0].dtype;
    const ValueId mask = MaskOver(cache, copy.Of({cache.parameter, 0}), dtype, copy.to());
    // The input itself is read by nothing.
    copy.to().node(copy.Of({parameter, 0}).node).outputs[0].shape =
        PartialShape({PartialShape::kDynamic, 1});
    copy.Replace({parameter, 0}, mask);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != "Parameter") {
      copy.Keep(static_cast<int>(i));
    }
  }
  return TakeChanged(std::move(copy).Finish(), graph, info, context);
}

absl::StatusOr<bool> AddStepNumbers(Graph& graph, GraphInfo& info, const PassContext& context) {
  const DecoderPorts& ports = context.decoder->ports;
  const int tokens = TokenParameter(graph, ports);
  bool any = false;
  for (size_t i = 0; tokens >= 0 && i < graph.parameters.size(); ++i) {
    if (static_cast<int>(i) != tokens && CountsSteps(graph, ports, graph.parameters[i])) {
      any = true;
      BW_RETURN_IF_ERROR(AddCount(graph.parameters[i], tokens, graph));
    }
  }
  if (any) {
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, context.operators));
  }
  return any;
}

// KeepComputed changes one function of each cache at a time, and a change may make the next one
// possible.
absl::StatusOr<bool> KeepComputedCaches(Graph& graph, GraphInfo& info, const PassContext& context) {
  bool any = false;
  while (true) {
    PassContext caches{context.operators};
    for (const GrowingState& state : StatesFromNothing(context.decoder->ports, graph)) {
      caches.states.push_back(state.nodes);
    }
    BW_ASSIGN_OR_RETURN(const bool changed, KeepComputed(graph, info, caches));
    if (!changed) {
      return any;
    }
    any = true;
  }
}

}  // namespace beamwright::ops
