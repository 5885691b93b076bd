#include "ops/tools/check.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/shape_folding.h"
#include "ops/decoder/beam_index.h"
#include "ops/decoder/join_decoder.h"
#include "ops/decoder/step_form.h"
#include "ops/loop/loop_body.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/tools/ports.h"
#include "ops/tools/printable.h"
#include "ops/tools/roles.h"
#include "ops/tools/show.h"

namespace beamwright::ops {
namespace {

StepFinding CheckStep(std::string what, const std::shared_ptr<const Loop>& loop,
                      const GraphInfo& info) {
  StepFinding finding;
  finding.what = std::move(what);
  const auto compiled = LoopBody::Compile(loop, info, Operators());
  if (!compiled.ok()) {
    finding.row_by_row = std::string(compiled.status().message());
    return finding;
  }
  const LoopBody& body = **compiled;
  for (size_t i = 0; i < loop->body.nodes.size(); ++i) {
    const Node& node = loop->body.nodes[i];
    const bool is_port = node.op == "Parameter" || node.op == "Result";
    if (!is_port && body.scopes()[i] == Scope::kRequest) {
      finding.once_per_request.push_back(Describe(node));
    }
  }
  const RowPlan& plan = body.plan();
  finding.row_by_row = plan.separable ? "" : plan.reason;
  finding.instructions = static_cast<int>(plan.per_request.size());
  for (size_t i = 0; plan.separable && i < plan.per_request.size(); ++i) {
    if (plan.per_request[i]) {
      finding.per_request.push_back(body.step_program().instructions()[i].name);
    }
  }
  return finding;
}

// The top-level loop over the target alone if it is the whole decoder: it slices a Parameter and
// gives the logits. -1: layers around it, or further loops, have to become part of its body.
int WholeDecoder(const Graph& graph, int logits) {
  const int node = graph.node(logits).inputs[0].node;
  const auto is_loop = [](const Node& other) { return other.loop != nullptr; };
  if (graph.node(node).loop == nullptr ||
      std::count_if(graph.nodes.begin(), graph.nodes.end(), is_loop) != 1) {
    return -1;
  }
  for (const LoopInput& rule : graph.node(node).loop->inputs) {
    const ValueId from =
        rule.input < 0 ? ValueId{} : graph.node(node).inputs[static_cast<size_t>(rule.input)];
    if (rule.kind == LoopInput::Kind::kSliced && graph.node(from.node).op != "Parameter") {
      return -1;
    }
  }
  return node;
}

// As the server makes the step of a decoder over the whole target (docs/bundle.md, 'The decoder').
absl::Status CheckWholeTarget(Graph graph, GraphInfo info, const DecoderRoles& roles,
                              GraphFindings& findings) {
  const Ports inputs = InputPorts(graph);
  const auto tokens = static_cast<int>(FindPort(inputs, roles.token_input) - inputs.data());
  const auto find_logits = [&] { return FindPort(OutputPorts(graph), roles.logits_output)->node; };
  if (const int loop = WholeDecoder(graph, find_logits()); loop >= 0) {
    const auto slices = [](const LoopInput& rule) { return rule.kind == LoopInput::Kind::kSliced; };
    const auto& rules = graph.node(loop).loop->inputs;
    const auto slice = std::find_if(rules.begin(), rules.end(), slices);
    const int token_axis = slice != rules.end() && slice->axis == 0 ? 1 : 0;
    BW_RETURN_IF_ERROR(
        FoldShapes(graph, info, Operators(), DecoderRowAxes(graph, tokens, token_axis)));
    const auto at = static_cast<size_t>(graph.node(find_logits()).inputs[0].node);
    const Node& node = graph.nodes[at];
    findings.step = CheckStep(Describe(node), node.loop, *info.bodies[at][0]);
    return absl::OkStatus();
  }
  const auto result = std::find(graph.results.begin(), graph.results.end(), find_logits());
  const absl::StatusOr<JoinedDecoder> joined = JoinDecoder(
      graph, info, Operators(), tokens, static_cast<int>(result - graph.results.begin()));
  if (!joined.ok()) {
    return joined.status();
  }
  const auto loop = static_cast<size_t>(joined->loop_node);
  findings.step =
      CheckStep(absl::StrCat("loops and layers over '", roles.token_input, "', made one step"),
                joined->graph.nodes[loop].loop, *joined->info.bodies[loop][0]);
  return absl::OkStatus();
}

// States that count rows second get them first, as in the server.
absl::Status MoveStates(const DecoderRoles& roles, Graph& graph, GraphInfo& info) {
  const auto index_of = [](const Ports& ports, const std::string& name) {
    return static_cast<int>(FindPort(ports, name) - ports.data());
  };
  const Ports inputs = InputPorts(graph);
  const int tokens = index_of(inputs, roles.token_input);
  std::vector<StepState> states;
  for (const StateRole& state : roles.states) {
    const int parameter = index_of(inputs, state.input);
    if (CountsRowsSecond(graph, tokens, parameter)) {
      states.push_back({parameter, index_of(OutputPorts(graph), state.output)});
    }
  }
  if (!states.empty()) {
    MoveRowsFirst(graph, states);
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, Operators()));
  }
  return absl::OkStatus();
}

absl::Status CheckStepGraph(Graph graph, GraphInfo info, const DecoderRoles& roles,
                            GraphFindings& findings) {
  BW_RETURN_IF_ERROR(MoveStates(roles, graph, info));
  const Ports inputs = InputPorts(graph);
  const Port* const tokens = FindPort(inputs, roles.token_input);
  BW_RETURN_IF_ERROR(FoldShapes(graph, info, Operators(),
                                DecoderRowAxes(graph, static_cast<int>(tokens - inputs.data()),
                                               TokenRowAxis(tokens->info.shape))));
  const std::string states =
      absl::StrJoin(roles.states, ", ", [](std::string* out, const StateRole& state) {
        absl::StrAppend(out, "'", state.input, "'");
      });
  findings.step =
      CheckStep(absl::StrCat("step graph with token '", roles.token_input, "' and states ", states),
                StepLoop(graph, roles), info);
  return absl::OkStatus();
}

void FindStep(const Graph& graph, const GraphInfo& info, GraphFindings& findings) {
  std::vector<std::string> reasons;
  const absl::StatusOr<DecoderRoles> roles = GuessDecoderRoles(graph, nullptr, {}, reasons);
  absl::Status status = roles.status();
  if (roles.ok()) {
    status = roles->has_loop ? CheckWholeTarget(graph, info, *roles, findings)
                             : CheckStepGraph(graph, info, *roles, findings);
  }
  findings.no_step = std::string(status.message());
}

void CheckDecoder(const Graph& graph, const GraphInfo& info, GraphFindings& findings) {
  std::optional<Graph> stepped = InlineSingleIterations(graph);
  if (std::optional<Graph> without = WithoutBeamIndex(stepped.has_value() ? *stepped : graph)) {
    stepped = std::move(without);
  }
  if (!stepped.has_value()) {
    FindStep(graph, info, findings);
    return;
  }
  const absl::StatusOr<GraphInfo> inferred = InferGraph(*stepped, Operators());
  if (inferred.ok()) {
    FindStep(*stepped, *inferred, findings);
  } else {
    findings.no_step = std::string(inferred.status().message());
  }
}

// Compiles the graph; if it can be an encoder, that is what is looked at.
absl::Status CheckEncoder(Graph graph, GraphFindings& findings) {
  std::vector<std::string> reasons;
  const absl::StatusOr<EncoderRoles> roles = GuessEncoderRoles(graph, reasons);
  if (!roles.ok() || findings.step.has_value()) {
    return Model::Compile(std::move(graph)).status();
  }
  const Ports inputs = InputPorts(graph);
  const auto index_of = [&](const std::string& name) {
    return static_cast<int>(FindPort(inputs, name) - inputs.data());
  };
  const RowInputs rows{index_of(roles->input), roles->length_kind == LengthKind::kLengths
                                                   ? index_of(roles->length_input)
                                                   : -1};
  RowProof proof;
  BW_RETURN_IF_ERROR(Model::Compile(std::move(graph), Precision::kF32, rows, proof).status());
  findings.encoder = std::move(proof);
  return absl::OkStatus();
}

void AppendEncoder(const RowProof& proof, const std::string& margin, std::string& text) {
  if (proof.separable) {
    absl::StrAppend(&text, margin,
                    "as an encoder: sources of several requests are encoded together\n");
    return;
  }
  absl::StrAppend(&text, margin, "as an encoder: sources are encoded one at a time, because ",
                  Printable(proof.reason), "\n", margin,
                  "  cost: S sources take S runs, instead of one for all that are equally long; "
                  "answers are the same\n");
}

std::string Names(const std::vector<std::string>& names) {
  return Printable(absl::StrJoin(names, ", "));
}

void AppendStep(const StepFinding& step, const std::string& margin, std::string& text) {
  absl::StrAppend(&text, margin, Printable(step.what), ": a search steps ");
  if (!step.row_by_row.empty()) {
    absl::StrAppend(&text, "its rows one at a time, because ", Printable(step.row_by_row), "\n",
                    margin, "  cost: with R rows in flight (requests x beam size) all ",
                    step.instructions,
                    " instructions run R times a step, instead of once over R "
                    "rows; answers are the same\n");
    return;
  }
  absl::StrAppend(&text, "the rows of all requests together\n", margin, "  ", step.instructions,
                  " instructions a step");
  if (!step.once_per_request.empty()) {
    absl::StrAppend(&text, "; before, once per request: ", Names(step.once_per_request));
  }
  absl::StrAppend(&text, "\n");
  if (!step.per_request.empty()) {
    absl::StrAppend(&text, margin, "  request by request, as they touch a request's own extents: ",
                    Names(step.per_request), "\n", margin, "  cost: these ",
                    step.per_request.size(),
                    " run once for each request in a step, over its rows, "
                    "instead of once for all\n");
  }
}

}  // namespace

GraphFindings CheckGraph(Graph graph) {
  GraphFindings findings;
  findings.unsupported = UnsupportedNodes(graph, Operators());
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  if (info.ok()) {
    const absl::Status folded = FoldShapes(graph, *info, Operators());
    info = folded.ok() ? std::move(info) : folded;
  }
  if (!info.ok()) {
    // Behind a missing operator nothing can be known.
    findings.status = findings.unsupported.empty() ? info.status() : absl::OkStatus();
    return findings;
  }
  CheckDecoder(graph, *info, findings);
  findings.status = CheckEncoder(std::move(graph), findings);
  return findings;
}

std::string CheckText(const GraphFindings& findings, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string text =
      absl::StrCat(margin, findings.ok() ? "can be loaded" : "can't be loaded", "\n");
  for (const std::string& node : findings.unsupported) {
    absl::StrAppend(&text, margin, "operator not supported: ", Printable(node), "\n");
  }
  if (!findings.status.ok()) {
    absl::StrAppend(&text, margin, Printable(findings.status.message()), "\n");
  }
  if (findings.step.has_value()) {
    AppendStep(*findings.step, margin, text);
  }
  if (!findings.no_step.empty()) {
    absl::StrAppend(&text, margin, "no search steps it: ", Printable(findings.no_step), "\n");
  }
  if (findings.encoder.has_value()) {
    AppendEncoder(*findings.encoder, margin, text);
  }
  return text;
}

}  // namespace beamwright::ops
