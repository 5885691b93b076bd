// What `beamwright-graph check` finds out about one graph: whether the server can load it, as what,
// and what a search pays for it. CheckGraph:
//
// 1. Operators that are not supported are all listed; further faults are then those that do not
//    depend on them.
// 2. CheckDecoder: guesses the ports and compiles the graph as a decoder's step, as the server
//    does. FindingOf reports what runs once per request, once per step for all rows, and what runs
//    request by request or row by row, and why.
// 3. FramesFinding: whether it looks like a part of a transducer or a CTC model; LooksLikeTagger:
//    like a tagger.
// 4. CheckEncoder: compiles it as an encoder and reports whether sources are encoded together.
//
// CheckText writes the findings for people, each cost with what it means: "S sources take S runs".
#include "tools/graph/check.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/compile/program.h"
#include "ops/decoder/decoder_form.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/decoder/stepped_decoder.h"
#include "ops/graph/inference.h"
#include "ops/graph/trace.h"
#include "ops/import/graph_file.h"
#include "ops/loop/loop_body.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"
#include "tools/graph/show.h"

namespace beamwright::ops {
namespace {

// A decoder's step, compiled as the server does, for looking at: what `check` reports and `show`
// draws.
struct InspectedStep {
  std::unique_ptr<const SteppedDecoder> decoder;  // null: the graph is not a decoder, because
  std::string no_step;
};

// Guesses the ports, as `init` does, in the form of the graph that a search steps.
absl::StatusOr<DecoderRoles> RolesOf(const Graph& inferred) {
  Graph graph = inferred;
  BW_RETURN_IF_ERROR(LeaveTheStep(graph));
  std::vector<std::string> reasons;
  return GuessDecoderRoles(graph, nullptr, {}, reasons);
}

// `file`: as the importer leaves it. `inferred`: the same with types, shapes and folded extents. An
// error is what a server would refuse a decoder for.
absl::StatusOr<InspectedStep> InspectStep(Graph file, const Graph& inferred) {
  InspectedStep step;
  const absl::StatusOr<DecoderRoles> roles = RolesOf(inferred);
  if (!roles.ok()) {
    step.no_step = std::string(roles.status().message());
    return step;
  }
  DecoderOptions options;
  options.token_table_share = 0;
  options.for_inspection = true;
  auto decoder = std::make_unique<SteppedDecoder>();
  BW_RETURN_IF_ERROR(CompileDecoder(std::move(file), PortsOf(*roles), options, *decoder));
  step.decoder = std::move(decoder);
  return step;
}

StepFinding FindingOf(const SteppedDecoder& decoder) {
  StepFinding finding;
  finding.what = decoder.step_name;
  const LoopBody& body = *decoder.body;
  const std::vector<Node>& nodes = body.loop().body.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool is_port = nodes[i].op == "Parameter" || nodes[i].op == "Result";
    if (!is_port && body.scopes()[i] == Scope::kRequest) {
      finding.once_per_request.push_back(Describe(nodes[i]));
    }
  }
  const RowPlan& plan = body.plan();
  const std::vector<bool> needed = AncestorsOf(decoder.decoder, decoder.invariant_values);
  finding.reads_memory =
      std::any_of(decoder.input_nodes.begin(), decoder.input_nodes.end(),
                  [&needed](int node) { return needed[static_cast<size_t>(node)]; });
  finding.row_by_row = plan.separable ? "" : plan.reason;
  finding.perhaps = plan.separable ? "" : FrozenReshape(decoder.decoder);
  finding.instructions = static_cast<int>(plan.per_request.size());
  const auto& instructions = body.step_program().instructions();
  for (size_t i = 0; plan.separable && i < plan.per_request.size(); ++i) {
    // The number of the step is no layer of the file.
    if (plan.per_request[i] && !plan.takes_step_number[i]) {
      finding.per_request.push_back(instructions[i].name);
    }
  }
  return finding;
}

// Compiles a step as the server does (ops/decoder/stepped_decoder.h).
absl::Status CheckDecoder(Graph file, const Graph& inferred, GraphFindings& findings) {
  BW_ASSIGN_OR_RETURN(const InspectedStep step, InspectStep(std::move(file), inferred));
  findings.no_step = step.no_step;
  if (step.decoder != nullptr) {
    findings.step = FindingOf(*step.decoder);
  }
  return absl::OkStatus();
}

// Which part of a model that is searched by frames the graph may be; empty: of none.
std::string FramesFinding(const Graph& graph) {
  if (IsPredictorAndJoiner(graph)) {
    return "predictor and joiner of a transducer in one graph: `init ENCODER THIS` serves it";
  }
  if (IsJoiner(graph)) {
    return "joiner of a transducer: `init ENCODER PREDICTOR THIS` serves it";
  }
  if (LooksLikeCtc(graph)) {
    return "encoder, or CTC model: `init THIS --tokens FILE` serves it as CTC";
  }
  if (LooksLikePredictor(graph)) {
    return "predictor of a transducer without states: `init ENCODER THIS JOINER` serves it";
  }
  return "";
}

// Compiles the graph; if it can be an encoder, that is what is looked at.
absl::Status CheckEncoder(Graph graph, GraphFindings& findings) {
  std::vector<std::string> reasons;
  const absl::StatusOr<EncoderRoles> roles = GuessEncoderRoles(graph, reasons);
  // With several inputs it may as well be something else: a filter with states, a language model.
  if (!roles.ok() || !roles->further_inputs.empty() || findings.step.has_value()) {
    return Model::Compile(std::move(graph)).status();
  }
  const Ports inputs = InputPorts(graph);
  const auto index_of = [&](const std::string& name) {
    return static_cast<int>(FindPort(inputs, name) - inputs.data());
  };
  RowInputs rows{index_of(roles->input)};
  if (roles->length_kind == LengthKind::kLengths) {
    rows.lengths = index_of(roles->length_input);
  } else if (roles->length_kind != LengthKind::kNone) {
    rows.mask = index_of(roles->length_input);
    rows.length_axis = FindLengthAxis(inputs[static_cast<size_t>(rows.source)].info.shape);
  }
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
    if (!step.perhaps.empty()) {
      absl::StrAppend(&text, margin, "  perhaps because ", Printable(step.perhaps), "\n");
    }
    return;
  }
  absl::StrAppend(&text, "the rows of all requests together\n");
  if (!step.reads_memory) {
    absl::StrAppend(
        &text, margin,
        "  it reads nothing but tokens and states: with states that begin at zero it is "
        "a language model\n");
  }
  absl::StrAppend(&text, margin, "  ", step.instructions, " instructions a step");
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
  findings.warnings = graph.warnings;
  TakeFloatIds(graph);
  Graph file = graph;
  absl::StatusOr<GraphInfo> info = InferGraph(graph, Operators());
  if (info.ok()) {
    const absl::Status folded = FoldShapes(graph, *info, {Operators()}).status();
    info = folded.ok() ? std::move(info) : folded;
  }
  if (!info.ok()) {
    // What hangs on a missing operator is not judged.
    findings.status = findings.unsupported.empty()
                          ? info.status()
                          : FaultsBesideUnknown(std::move(file), Operators());
    return findings;
  }
  const absl::Status step = CheckDecoder(std::move(file), graph, findings);
  // A predictor with its joiner can be stepped over its tokens as well, which no search does.
  findings.frames =
      findings.step.has_value() && !IsPredictorAndJoiner(graph) ? "" : FramesFinding(graph);
  bool other = false;
  const bool may_tag =
      findings.frames.empty() && !findings.step.has_value() && LooksLikeTagger(graph, other);
  findings.status = CheckEncoder(std::move(graph), findings);
  if (!findings.frames.empty()) {
    // That it is no decoder goes without saying.
    findings.no_step = step.ok() ? "" : std::string(step.message());
  } else if (findings.encoder.has_value()) {
    findings.no_step = step.ok() ? findings.no_step : std::string(step.message());
  } else if (findings.status.ok()) {
    findings.status = step;  // it can only be a decoder, and is refused as such
  }
  if (may_tag && findings.encoder.has_value()) {
    findings.frames =
        "encoder, or tagger with a label for each token: `init THIS --tags --source-vocab FILE "
        "--target-vocab LABELS` serves it";
  }
  return findings;
}

std::string CheckText(const GraphFindings& findings, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string text =
      absl::StrCat(margin, findings.ok() ? "can be loaded" : "can't be loaded", "\n");
  for (const std::string& warning : findings.warnings) {
    absl::StrAppend(&text, margin, "warning: ", Printable(warning), "\n");
  }
  std::set<absl::string_view> remedies;
  for (const std::string& node : findings.unsupported) {
    absl::StrAppend(&text, margin, "operator not supported: ", Printable(node), "\n");
    if (const char* const remedy = OnnxRemedy(node)) {
      remedies.insert(remedy);
    }
  }
  for (const absl::string_view remedy : remedies) {
    absl::StrAppend(&text, margin, "remedy: ", remedy, "\n");
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
  if (!findings.frames.empty()) {
    absl::StrAppend(&text, margin, "of a search by frames: ", findings.frames, "\n");
  }
  if (findings.encoder.has_value()) {
    AppendEncoder(*findings.encoder, margin, text);
  }
  return text;
}

namespace {

// The constant target of a Reshape; empty if it is not constant.
std::vector<int64_t> ConstantTarget(const Graph& graph, const Node& node) {
  if (node.op != "Reshape" || node.inputs.size() != 2) {
    return {};
  }
  const Node& target = graph.node(node.inputs[1].node);
  if (target.op != "Constant") {
    return {};
  }
  const absl::StatusOr<Tensor> numbers = Convert(target.constant, DType::kI64);
  return numbers.ok() ? std::vector<int64_t>(numbers->data<int64_t>(),
                                             numbers->data<int64_t>() + numbers->num_elements())
                      : std::vector<int64_t>();
}

// Whether the numbers of the target hold a factor that no known extent of the data has.
bool IsFrozen(const PartialShape& data, const std::vector<int64_t>& target, bool special_zero) {
  int64_t known = 1;
  int64_t wanted = 1;
  int num_open = 0;
  bool has_open = false;
  for (int axis = 0; axis < data.rank(); ++axis) {
    const auto place = static_cast<size_t>(axis);
    const bool is_copied = special_zero && place < target.size() && target[place] == 0;
    if (data.dim(axis) == PartialShape::kDynamic) {
      ++num_open;
      has_open = has_open || !is_copied;
    } else if (!is_copied) {
      known *= data.dim(axis);
    }
  }
  for (const int64_t number : target) {
    wanted *= number > 0 ? number : 1;
  }
  // Heads that become one axis again: [1, rows * heads, width] -> [rows, heads * width].
  const int64_t width = data.rank() > 0 ? data.dim(data.rank() - 1) : 0;
  if (num_open == 1 && width > 0 && target.back() > 0 && target.back() % width == 0) {
    wanted = wanted / target.back() * width;
  }
  return has_open && known > 0 && known % wanted != 0;
}

}  // namespace

std::string FrozenReshape(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.loop != nullptr) {
      if (std::string inside = FrozenReshape(node.loop->body); !inside.empty()) {
        return inside;
      }
    }
    const std::vector<int64_t> target = ConstantTarget(graph, node);
    if (target.empty()) {
      continue;
    }
    const PartialShape& data = graph.info(node.inputs[0]).shape;
    if (data.has_rank() &&
        IsFrozen(data, target, node.attributes.Bool("special_zero", false).value_or(false))) {
      return absl::StrCat(Describe(node), " makes ", ToString(target), " of ", data.ToString(),
                          ", where a number looks like an extent of the export's example; "
                          "PyTorch's exporter with dynamo=True keeps such extents open");
    }
  }
  return "";
}

}  // namespace beamwright::ops
