#include "ops/decoder/transducer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/program.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/decoder/transducer_graphs.h"
#include "ops/graph/rewrite.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

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

// Cuts a transducer's graph into the parts that are computed at different times. `joined` is one
// graph from a frame, the last tokens and the states to the scores, where predictor and joiner may
// be mixed:
//
//   frame   -> frame part     -> cut values, once per frame -.
//                                                              joiner -> scores
//   tokens  -> predictor part -> cut values, once per token -'
//
// A search combines many hypotheses with each frame; without the cut, each combination would
// compute what depends on only one of them again.
//
// 1. MakeKnownConstant: values that are known from shapes become constants, so that they tie
//    nothing together.
// 2. FindDependence: for each node, whether it depends on the frame, the tokens, or both. The
//    scores must depend on both, the states not on the frame.
// 3. Take: from the scores backwards, nodes that depend on both are the joiner's; where one reads a
//    value that depends on one side only, and that is rows of floats (CanBeCut), the value is cut
//    there.
// 4. Build: Part copies each side with a Result per cut value, JoinerGraph copies the joiner with a
//    Parameter per cut value.

namespace {

// Bits: what a node depends on.
constexpr int kFrame = 1;
constexpr int kTokens = 2;
constexpr int kBoth = kFrame | kTokens;

// Infers a part of a graph anew, in which every Parameter counts rows on its first axis.
absl::StatusOr<TransducerPart> MakePart(Graph graph) {
  TransducerPart part{std::move(graph), {}};
  BW_ASSIGN_OR_RETURN(part.info, InferGraph(part.graph, Operators()));
  BW_RETURN_IF_ERROR(FoldShapes(part.graph, part.info,
                                {Operators(), std::vector<int>(part.graph.parameters.size(), 0)})
                         .status());
  return part;
}

class Cutter {
 public:
  explicit Cutter(const JoinedTransducer& joined) : joined_(joined), graph_(joined.graph) {}

  absl::StatusOr<TransducerParts> Run() {
    MakeKnownConstant();
    FindDependence();
    const int logits = graph_.results[static_cast<size_t>(joined_.logits)];
    if (depends_[static_cast<size_t>(logits)] != kBoth) {
      return Invalid(
          "joiner.logits_output: the scores do not depend on ",
          (depends_[static_cast<size_t>(logits)] & kFrame) == 0 ? "the frame" : "the tokens");
    }
    for (const StepState& state : joined_.states) {
      const int result = graph_.results[static_cast<size_t>(state.result)];
      if ((depends_[static_cast<size_t>(result)] & kFrame) != 0) {
        return Invalid("predictor.states: '", PortName(graph_, result),
                       "' depends on the encoder's frame");
      }
    }
    in_joiner_.assign(graph_.nodes.size(), false);
    BW_RETURN_IF_ERROR(Take(logits));
    return Build();
  }

 private:
  // Makes constants of values that are known although they read a Parameter, such as a shape to
  // which a joiner expands one side. They would tie the parts together, although they depend on
  // neither.
  void MakeKnownConstant() {
    std::vector<bool> reads_parameter(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      reads_parameter[i] = node.op == "Parameter" ||
                           std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                             return id.present() && reads_parameter[static_cast<size_t>(id.node)];
                           });
      if (reads_parameter[i] && node.outputs.size() == 1 &&
          joined_.info.IsKnown(static_cast<int>(i))) {
        node.op = "Constant";
        node.inputs.clear();
        node.attributes = Attributes();
        node.constant = joined_.info.constants[i][0];
        reads_parameter[i] = false;
      }
    }
  }

  void FindDependence() {
    depends_.assign(graph_.nodes.size(), 0);
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      depends_[static_cast<size_t>(graph_.parameters[i])] =
          static_cast<int>(i) == joined_.frame ? kFrame : kTokens;
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const bool is_known = graph_.nodes[i].op != "Result" && graph_.nodes[i].op != "Parameter" &&
                            joined_.info.IsKnown(static_cast<int>(i));
      for (const ValueId input : graph_.nodes[i].inputs) {
        if (input.present() && !is_known) {
          depends_[i] |= depends_[static_cast<size_t>(input.node)];
        }
      }
    }
  }

  // Whether a value can be kept and gathered: rows of floats whose other extents are known.
  bool CanBeCut(ValueId value) const {
    const ValueInfo& info = graph_.info(value);
    if (!IsFloat(info.dtype) || !info.shape.has_rank() || info.shape.rank() == 0 ||
        info.shape.dim(0) != PartialShape::kDynamic) {
      return false;
    }
    for (int axis = 1; axis < info.shape.rank(); ++axis) {
      if (info.shape.dim(axis) == PartialShape::kDynamic) {
        return false;
      }
    }
    return true;
  }

  // Puts a node into the joiner, with the nodes that it reads; a value that depends on one side
  // only is cut off if it can be, else it is computed in the joiner.
  absl::Status Take(int node) {
    std::vector<int> open = {node};
    while (!open.empty()) {
      const int index = open.back();
      open.pop_back();
      if (in_joiner_[static_cast<size_t>(index)]) {
        continue;
      }
      if (graph_.node(index).op == "Parameter") {
        return absl::UnimplementedError(
            absl::StrCat("the joiner cannot be separated from the predictor: it reads '",
                         PortName(graph_, index), "' by more than rows of numbers"));
      }
      in_joiner_[static_cast<size_t>(index)] = true;
      for (const ValueId input : graph_.node(index).inputs) {
        if (!input.present()) {
          continue;
        }
        const int depends = depends_[static_cast<size_t>(input.node)];
        if ((depends == kFrame || depends == kTokens) && CanBeCut(input)) {
          AddCut(input, depends == kFrame);
        } else {
          open.push_back(input.node);
        }
      }
    }
    return absl::OkStatus();
  }

  void AddCut(ValueId value, bool is_of_frame) {
    for (const auto& [known, input] : cuts_) {
      if (known == value) {
        return;
      }
    }
    std::vector<ValueId>& results = is_of_frame ? frame_values_ : token_values_;
    const int first = is_of_frame ? 0 : static_cast<int>(joined_.states.size());
    cuts_.push_back({value, {is_of_frame, first + static_cast<int>(results.size())}});
    results.push_back(value);
  }

  // The nodes that `values` depend on, with a Result for each; those of the states come first.
  Graph Part(const std::vector<ValueId>& values, bool with_states) const {
    std::vector<ValueId> wanted = values;
    std::vector<bool> keep_results(graph_.nodes.size(), false);
    for (const StepState& state : joined_.states) {
      if (with_states) {
        const int result = graph_.results[static_cast<size_t>(state.result)];
        wanted.push_back({result, 0});
      }
    }
    std::vector<bool> keep = AncestorsOf(graph_, wanted);
    for (int i = 0; i < static_cast<int>(graph_.parameters.size()); ++i) {
      keep[static_cast<size_t>(graph_.parameters[static_cast<size_t>(i)])] =
          (i == joined_.frame) != with_states;
    }
    std::vector<int> moved;
    Graph part = KeepNodes(graph_, keep, &moved);
    for (size_t i = 0; i < values.size(); ++i) {
      Node result;
      result.op = "Result";
      result.name = absl::StrCat("to_joiner_", i);
      result.inputs = {{moved[static_cast<size_t>(values[i].node)], values[i].output}};
      part.results.push_back(AppendNode(part, std::move(result)).node);
    }
    return part;
  }

  Graph JoinerGraph() const {
    GraphCopy copy(graph_);
    std::vector<int> parameters;
    for (const auto& [value, input] : cuts_) {
      Node node;
      node.op = "Parameter";
      node.name = absl::StrCat(input.is_of_frame ? "frame_" : "predictor_", parameters.size());
      node.outputs = {graph_.info(value)};
      node.outputs[0].names = {node.name};
      const ValueId parameter = AppendNode(copy.to(), std::move(node));
      parameters.push_back(parameter.node);
      copy.Replace(value, parameter);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (in_joiner_[i]) {
        copy.Keep(static_cast<int>(i));
        for (size_t cut = 0; cut < cuts_.size(); ++cut) {
          if (cuts_[cut].first.node == static_cast<int>(i)) {
            copy.Replace(cuts_[cut].first, {parameters[cut], 0});
          }
        }
      }
    }
    Graph joiner = std::move(copy).Finish();
    joiner.parameters = std::move(parameters);
    return joiner;
  }

  absl::StatusOr<TransducerParts> Build() const {
    TransducerParts parts;
    for (const auto& [value, input] : cuts_) {
      parts.joiner_inputs.push_back(input);
    }
    const bool takes_frames =
        frame_values_.size() == 1 && graph_.node(frame_values_[0].node).op == "Parameter";
    if (!takes_frames) {
      auto frames = MakePart(Part(frame_values_, false));
      BW_RETURN_IF_ERROR(Annotate(frames.status(), "joiner"));
      parts.frames = *std::move(frames);
    }
    auto predictor = MakePart(Part(token_values_, true));
    BW_RETURN_IF_ERROR(Annotate(predictor.status(), "predictor"));
    parts.predictor = *std::move(predictor);
    auto joiner = MakePart(JoinerGraph());
    BW_RETURN_IF_ERROR(Annotate(joiner.status(), "joiner"));
    parts.joiner = *std::move(joiner);
    return parts;
  }

  const JoinedTransducer& joined_;
  Graph graph_;                  // of joined_, perhaps changed
  std::vector<int> depends_;     // by node
  std::vector<bool> in_joiner_;  // by node
  std::vector<std::pair<ValueId, Transducer::Input>> cuts_;
  std::vector<ValueId> frame_values_;
  std::vector<ValueId> token_values_;
};

}  // namespace

absl::StatusOr<TransducerParts> CutTransducer(const JoinedTransducer& joined) {
  return Cutter(joined).Run();
}

}  // namespace beamwright::ops
