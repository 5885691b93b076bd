// Translates OpenVINO's layers with bodies: TensorIterator and Loop to ops::Loop, If to ops::If.
// The XML of a layer has a port_map and back_edges:
//
//   <port_map>
//     <input external_port_id="0" internal_layer_id="0" axis="1" stride="1"/>
//     <input external_port_id="1" internal_layer_id="1"/>
//     <output external_port_id="2" internal_layer_id="7" axis="1"/>
//   </port_map>
//   <back_edges> <edge from-layer="6" to-layer="1"/> </back_edges>
//
// Parameter 0 of the body gets a slice of port 0 in each iteration; parameter 1 begins with the
// value of port 1 and then gets result 6 of the iteration before, a state; port 2 is what result 7
// gives, joined over the iterations.
//
// 1. ReadBackEdges: which result of the body an iteration passes to which parameter of the next
//    one.
// 2. ReadInputs, AddInput: each parameter of the body must be fed by exactly one rule: as a slice,
//    an invariant value, the initial value of a state (if a back edge leads to it), or the
//    iteration's number.
// 3. ReadOutputs, AddOutput: each output port is written by exactly one rule: the last iteration's
//    value, or all joined along an axis. A rule may name the execution condition instead.
// 4. TripCount: a Loop has an input for it; a TensorIterator that slices nothing runs as often as
//    the declared extents of its joined outputs say.
//
// If has two port maps, one per branch (ReadBranch). If the condition is a constant, only the
// branch that is taken is read.
//
// Every port that lacks a rule, has two, or names a layer that is not in the body is an error that
// names the rule, since files are input from outside.
#include <algorithm>
#include <pugixml.hpp>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/import/ir_graph.h"

namespace beamwright::ops {

// One rule of a port_map as the XML says it, with defaults filled in.

struct IrPortRule {
  int64_t external_id = -1;  // port id of the loop layer; -1: none (with a purpose)
  int64_t internal_id = -1;  // layer id in the body
  std::string purpose;       // Loop-5: "current_iteration", "execution_condition", or empty
  bool has_axis = false;     // the rest means something only with an axis
  int64_t axis = 0;
  int64_t start = 0;
  int64_t end = -1;
  int64_t stride = 1;  // part_size, with the sign of the file's stride
  int64_t part_size = 1;
};

// InvalidArgument: an attribute missing or no integer, stride 0, part_size below 1, a part_size
// that contradicts the stride. Unimplemented: the form of IR versions 5 to 7.
absl::StatusOr<IrPortRule> ReadPortRule(pugi::xml_node xml);

// A body's layer by its id: the index that `ids` has for it. InvalidArgument, with the ids that
// would do, if `id` is not a layer of that kind ("Parameter", "Result").
absl::StatusOr<int> FindBodyLayer(const absl::flat_hash_map<int64_t, int>& ids, int64_t id,
                                  absl::string_view kind);

// "input rule of external port 2 and body layer 4": how messages name a rule.
std::string Describe(const IrPortRule& rule, absl::string_view direction);

namespace {

// Far above every extent; keeps arithmetic on them from overflowing.
constexpr int64_t kMostIndex = int64_t{1} << 48;

absl::StatusOr<int64_t> ReadBounded(pugi::xml_node xml, const char* name, int64_t fallback) {
  BW_ASSIGN_OR_RETURN(const int64_t value, ReadInt(xml, name, fallback));
  if (value < -kMostIndex || value > kMostIndex) {
    return Invalid("attribute '", name, "' is ", value, ", beyond 2^48");
  }
  return value;
}

absl::Status ReadSlice(pugi::xml_node xml, IrPortRule& rule) {
  BW_ASSIGN_OR_RETURN(rule.axis, ReadBounded(xml, "axis", 0));
  BW_ASSIGN_OR_RETURN(rule.start, ReadBounded(xml, "start", 0));
  BW_ASSIGN_OR_RETURN(rule.end, ReadBounded(xml, "end", -1));
  BW_ASSIGN_OR_RETURN(const int64_t stride, ReadBounded(xml, "stride", 1));
  if (stride == 0) {
    return Invalid("stride is 0");
  }
  rule.part_size = std::max(stride, -stride);
  if (xml.attribute("part_size")) {
    BW_ASSIGN_OR_RETURN(const int64_t part_size, ReadBounded(xml, "part_size", 1));
    if (part_size < 1) {
      return Invalid("part_size ", part_size, " is not positive");
    }
    if (xml.attribute("stride") && part_size != rule.part_size) {
      return Invalid("part_size ", part_size, " contradicts stride ", stride,
                     ": parts must be as long as the step between them");
    }
    rule.part_size = part_size;
  }
  rule.stride = stride > 0 ? rule.part_size : -rule.part_size;
  return absl::OkStatus();
}

}  // namespace

std::string Describe(const IrPortRule& rule, absl::string_view direction) {
  return absl::StrCat(direction, " rule of external port ", rule.external_id, " and body layer ",
                      rule.internal_id);
}

absl::StatusOr<int> FindBodyLayer(const absl::flat_hash_map<int64_t, int>& ids, int64_t id,
                                  absl::string_view kind) {
  constexpr size_t kMostListed = 32;
  const auto it = ids.find(id);
  if (it != ids.end()) {
    return it->second;
  }
  std::vector<int64_t> known;
  for (const auto& entry : ids) {
    known.push_back(entry.first);
  }
  std::sort(known.begin(), known.end());
  const bool more = known.size() > kMostListed;
  known.resize(std::min(known.size(), kMostListed));
  return Invalid("layer ", id, " is not a ", kind, " of the body; its ", kind,
                 "s have the ids: ", absl::StrJoin(known, ", "), more ? ", ..." : "");
}

absl::StatusOr<IrPortRule> ReadPortRule(pugi::xml_node xml) {
  if (xml.attribute("internal_port_id")) {
    return absl::UnimplementedError(
        "port_map rules with internal_port_id belong to IR versions 5 to 7; versions 10 and 11 are "
        "supported");
  }
  IrPortRule rule;
  BW_ASSIGN_OR_RETURN(rule.external_id, ReadInt(xml, "external_port_id"));
  BW_ASSIGN_OR_RETURN(rule.internal_id, ReadInt(xml, "internal_layer_id"));
  rule.purpose = xml.attribute("purpose").value();
  rule.has_axis = static_cast<bool>(xml.attribute("axis"));
  if (rule.has_axis) {
    const absl::Status status = ReadSlice(xml, rule);
    if (!status.ok()) {
      return Annotate(status, Describe(rule, xml.name()));
    }
  }
  return rule;
}

namespace {

absl::Status AddRule(const IrLayer& layer, const IrGraph& body, const IrPortRule& rule,
                     bool is_input, Branch& branch) {
  if (rule.has_axis || !rule.purpose.empty()) {
    return Invalid("a branch has no slices and no purposes");
  }
  const char* const kind = is_input ? "Parameter" : "Result";
  BW_ASSIGN_OR_RETURN(const int inner, FindBodyLayer(is_input ? body.parameters : body.results,
                                                     rule.internal_id, kind));
  const int outer = (is_input ? layer.inputs : layer.outputs).Find(rule.external_id);
  if (outer < 0) {
    return Invalid("the layer has no ", is_input ? "input" : "output", " port ", rule.external_id);
  }
  // An input belongs to a Parameter, an output comes from a Result.
  int& connected = is_input ? branch.inputs[static_cast<size_t>(inner)]
                            : branch.results[static_cast<size_t>(outer)];
  if (connected >= 0) {
    return is_input ? Invalid("another rule feeds Parameter ", rule.internal_id)
                    : Invalid("another rule writes output port ", rule.external_id);
  }
  connected = is_input ? outer : inner;
  return absl::OkStatus();
}

absl::StatusOr<Branch> ReadBranch(const IrLayer& layer, const char* map_element,
                                  const char* body_element, IrImport& import) {
  BW_ASSIGN_OR_RETURN(IrGraph body, BuildInnerGraph(layer, body_element, import));
  Branch branch;
  branch.inputs.assign(body.graph.parameters.size(), -1);
  branch.results.assign(layer.outputs.size(), -1);
  for (const pugi::xml_node xml : layer.xml.child(map_element).children()) {
    const absl::string_view direction = xml.name();
    if (direction != "input" && direction != "output") {
      continue;
    }
    BW_ASSIGN_OR_RETURN(const IrPortRule rule, ReadPortRule(xml));
    const absl::Status status = AddRule(layer, body, rule, direction == "input", branch);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat(map_element, ": ", Describe(rule, direction)));
    }
  }
  for (size_t i = 0; i < branch.inputs.size(); ++i) {
    if (branch.inputs[i] < 0) {
      return Invalid(map_element, ": ", Describe(body.graph.node(body.graph.parameters[i])),
                     " has no rule");
    }
  }
  for (size_t i = 0; i < branch.results.size(); ++i) {
    if (branch.results[i] < 0) {
      return Invalid(map_element, ": output port ", layer.outputs[i].id, " has no rule");
    }
  }
  branch.body = std::move(body.graph);
  return branch;
}

class Translator {
 public:
  Translator(const IrLayer& layer, const std::vector<ValueId>& inputs, IrGraph body)
      : layer_(layer),
        inputs_(inputs),
        body_(std::move(body)),
        is_loop_(absl::EqualsIgnoreCase(layer.type, "Loop")) {
    loop_.body = std::move(body_.graph);
  }

  absl::StatusOr<IrLoop> Run() {
    if (is_loop_) {
      if (layer_.inputs.size() < 2) {
        return Invalid("has ", layer_.inputs.size(),
                       " inputs; the first two must be trip count and execution condition");
      }
      loop_.trip_count_input = 0;
      loop_.condition_input = 1;
      loop_.states_may_change_shape = true;
    }
    BW_RETURN_IF_ERROR(ReadBackEdges());
    BW_RETURN_IF_ERROR(ReadInputs());
    BW_RETURN_IF_ERROR(ReadOutputs());
    IrLoop result;
    BW_ASSIGN_OR_RETURN(result.trip_count, TripCount());
    result.loop = std::move(loop_);
    return result;
  }

 private:
  // Fills back_edges_: parameter of the body -> result of the body.
  absl::Status ReadBackEdges() {
    for (const pugi::xml_node xml : layer_.xml.child("back_edges").children("edge")) {
      BW_ASSIGN_OR_RETURN(const int64_t from, ReadInt(xml, "from-layer"));
      BW_ASSIGN_OR_RETURN(const int64_t to, ReadInt(xml, "to-layer"));
      const std::string where = absl::StrCat("back edge from body layer ", from, " to ", to);
      const absl::StatusOr<int> result = FindBodyLayer(body_.results, from, "Result");
      if (!result.ok()) {
        return Annotate(result.status(), where);
      }
      const absl::StatusOr<int> parameter = FindBodyLayer(body_.parameters, to, "Parameter");
      if (!parameter.ok()) {
        return Annotate(parameter.status(), where);
      }
      if (!back_edges_.emplace(*parameter, *result).second) {
        return Invalid(where, ": body ", BodyParameter(*parameter), " has another back edge");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadInputs() {
    for (const pugi::xml_node xml : layer_.xml.child("port_map").children("input")) {
      BW_ASSIGN_OR_RETURN(const IrPortRule rule, ReadPortRule(xml));
      const absl::Status status = AddInput(rule);
      if (!status.ok()) {
        return Annotate(status, Describe(rule, "input"));
      }
    }
    const auto count = static_cast<int>(loop_.body.parameters.size());
    for (int parameter = 0; parameter < count; ++parameter) {
      if (!fed_.contains(parameter)) {
        return Invalid("body ", BodyParameter(parameter),
                       back_edges_.contains(parameter)
                           ? " is the target of a back edge but no rule gives its initial value"
                           : " has no rule in the port_map");
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddInput(const IrPortRule& rule) {
    LoopInput input;
    BW_ASSIGN_OR_RETURN(input.body_parameter,
                        FindBodyLayer(body_.parameters, rule.internal_id, "Parameter"));
    const auto back_edge = back_edges_.find(input.body_parameter);
    BW_RETURN_IF_ERROR(SetSource(rule, input));
    if (!fed_.insert(input.body_parameter).second) {
      return IsRepeated(input)
                 ? absl::OkStatus()
                 : Invalid("another rule feeds body ", BodyParameter(input.body_parameter));
    }
    if (back_edge != back_edges_.end()) {
      if (input.kind == LoopInput::Kind::kIteration) {
        return Invalid("body ", BodyParameter(input.body_parameter),
                       " is the iteration's number and the target of a back edge");
      }
      if (rule.has_axis) {
        return Invalid("body ", BodyParameter(input.body_parameter), " is sliced along axis ",
                       rule.axis, " and the target of the back edge from ",
                       BodyResult(back_edge->second), "; it can be only one of them");
      }
      input.kind = LoopInput::Kind::kCarried;
      input.back_edge = back_edge->second;
    }
    loop_.inputs.push_back(input);
    return absl::OkStatus();
  }

  // OpenVINO writes the rule of an invariant input twice where a branch inside the body reads it:
  // two ports with one value.
  bool IsRepeated(const LoopInput& input) const {
    return std::any_of(loop_.inputs.begin(), loop_.inputs.end(), [&](const LoopInput& earlier) {
      return earlier.body_parameter == input.body_parameter &&
             earlier.kind == LoopInput::Kind::kInvariant &&
             input.kind == LoopInput::Kind::kInvariant &&
             inputs_[static_cast<size_t>(earlier.input)] ==
                 inputs_[static_cast<size_t>(input.input)];
    });
  }

  // Sets where the parameter's value comes from, except for back edges.
  absl::Status SetSource(const IrPortRule& rule, LoopInput& input) const {
    if (!rule.purpose.empty()) {
      if (!is_loop_ || rule.purpose != "current_iteration" || rule.external_id != -1) {
        return Invalid("purpose '", rule.purpose,
                       "'; an input rule may have 'current_iteration', in a Loop, with external "
                       "port -1");
      }
      input.kind = LoopInput::Kind::kIteration;
      return absl::OkStatus();
    }
    input.external_id = rule.external_id;
    input.input = layer_.inputs.Find(rule.external_id);
    if (input.input < 0) {
      return Invalid("the layer has no input port ", rule.external_id);
    }
    if (!rule.has_axis) {
      return absl::OkStatus();
    }
    input.kind = LoopInput::Kind::kSliced;
    input.axis = rule.axis;
    input.start = rule.start;
    input.end = rule.end;
    input.stride = rule.stride;
    input.part_size = rule.part_size;
    const bool comparable = (rule.start < 0) == (rule.end < 0);
    if (comparable && (rule.stride > 0 ? rule.start > rule.end : rule.start < rule.end)) {
      return Invalid("no step of stride ", rule.stride, " leads from start ", rule.start,
                     " to end ", rule.end);
    }
    return absl::OkStatus();
  }

  absl::Status ReadOutputs() {
    for (const pugi::xml_node xml : layer_.xml.child("port_map").children("output")) {
      BW_ASSIGN_OR_RETURN(const IrPortRule rule, ReadPortRule(xml));
      const absl::Status status = AddOutput(rule);
      if (!status.ok()) {
        return Annotate(status, Describe(rule, "output"));
      }
    }
    for (size_t i = 0; i < layer_.outputs.size(); ++i) {
      if (!written_.contains(static_cast<int>(i))) {
        return Invalid("output port ", layer_.outputs[i].id, " has no rule in the port_map");
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddOutput(const IrPortRule& rule) {
    BW_ASSIGN_OR_RETURN(const int result, FindBodyLayer(body_.results, rule.internal_id, "Result"));
    if (!rule.purpose.empty()) {
      if (!is_loop_ || rule.purpose != "execution_condition" || rule.external_id != -1) {
        return Invalid("purpose '", rule.purpose,
                       "'; an output rule may have 'execution_condition', in a Loop, with external "
                       "port -1");
      }
      if (loop_.condition_result >= 0) {
        return Invalid("another rule has the purpose execution_condition");
      }
      loop_.condition_result = result;
      return absl::OkStatus();
    }
    LoopOutput output;
    output.body_result = result;
    output.output = layer_.outputs.Find(rule.external_id);
    if (output.output < 0) {
      return Invalid("the layer has no output port ", rule.external_id);
    }
    if (!written_.insert(output.output).second) {
      return Invalid("another rule writes output port ", rule.external_id);
    }
    if (rule.has_axis) {
      output.kind = LoopOutput::Kind::kConcatenated;
      output.axis = rule.axis;
      output.reversed = rule.stride < 0;
      output.part_size = rule.part_size;
    }
    loop_.outputs.push_back(output);
    return absl::OkStatus();
  }

  // A TensorIterator that slices nothing runs as often as its concatenated outputs' declared
  // extents say, else once.
  absl::StatusOr<std::optional<int64_t>> TripCount() const {
    if (is_loop_ || std::any_of(loop_.inputs.begin(), loop_.inputs.end(), [](const LoopInput& in) {
          return in.kind == LoopInput::Kind::kSliced;
        })) {
      return std::nullopt;
    }
    std::optional<int64_t> trips;
    for (const LoopOutput& output : loop_.outputs) {
      const IrPort& port = layer_.outputs[static_cast<size_t>(output.output)];
      if (output.kind != LoopOutput::Kind::kConcatenated || !port.info.shape.has_rank()) {
        continue;
      }
      absl::StatusOr<int> axis = NormalizeAxis(output.axis, port.info.shape.rank());
      if (!axis.ok()) {
        return Annotate(axis.status(), absl::StrCat("output port ", port.id));
      }
      const int64_t extent = port.info.shape.dim(*axis);
      if (extent == PartialShape::kDynamic) {
        continue;
      }
      const int64_t count = extent / output.part_size;
      if (count * output.part_size != extent || (trips.has_value() && *trips != count)) {
        return Invalid("output port ", port.id, ": ", extent, " elements in parts of ",
                       output.part_size, " do not make ",
                       trips.has_value()
                           ? absl::StrCat(*trips, " iterations, as another output has")
                           : std::string("whole iterations"));
      }
      trips = count;
    }
    return std::optional<int64_t>(trips.value_or(1));
  }

  std::string BodyParameter(int index) const {
    return Describe(loop_.body.node(loop_.body.parameters[static_cast<size_t>(index)]));
  }
  std::string BodyResult(int index) const {
    return Describe(loop_.body.node(loop_.body.results[static_cast<size_t>(index)]));
  }

  const IrLayer& layer_;
  const std::vector<ValueId>& inputs_;  // by position of the layer's input ports
  IrGraph body_;                        // its graph has moved to loop_
  bool is_loop_;
  Loop loop_;
  absl::flat_hash_map<int, int> back_edges_;  // body parameter -> body result, as indices
  absl::flat_hash_set<int> fed_;              // body parameters, as indices
  absl::flat_hash_set<int> written_;          // outputs of the layer, as positions
};

}  // namespace

absl::StatusOr<If> TranslateIf(const IrLayer& layer, const Tensor& condition, IrImport& import) {
  if (layer.inputs.size() == 0) {
    return Invalid("has no inputs; the first must be its condition");
  }
  If result;
  if (condition.dtype() == DType::kBool && condition.num_elements() == 1) {
    // Only the branch that is taken is read; it is used as the other one too.
    const bool then = *condition.data<bool>();
    BW_ASSIGN_OR_RETURN(result.then_branch,
                        ReadBranch(layer, then ? "then_port_map" : "else_port_map",
                                   then ? "then_body" : "else_body", import));
    result.else_branch = result.then_branch;
    return result;
  }
  BW_ASSIGN_OR_RETURN(result.then_branch, ReadBranch(layer, "then_port_map", "then_body", import));
  BW_ASSIGN_OR_RETURN(result.else_branch, ReadBranch(layer, "else_port_map", "else_body", import));
  return result;
}

bool IsLoop(const IrLayer& layer) {
  return absl::EqualsIgnoreCase(layer.type, "TensorIterator") ||
         absl::EqualsIgnoreCase(layer.type, "Loop");
}

absl::StatusOr<IrLoop> TranslateLoop(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                     IrImport& import) {
  BW_ASSIGN_OR_RETURN(IrGraph body, BuildInnerGraph(layer, "body", import));
  return Translator(layer, inputs, std::move(body)).Run();
}

}  // namespace beamwright::ops
