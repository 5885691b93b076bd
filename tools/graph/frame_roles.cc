// Guesses what the ports of CTC models, taggers and transducers are for, from their types, shapes,
// names and the operators behind them.
//
// IsJoiner, LooksLikeCtc, LooksLikeTagger, LooksLikePredictor and IsPredictorAndJoiner say what
// kind of graph one may be: a joiner reads two inputs of floats, a CTC model no tokens, and so on.
//
// GuessTransducerRoles (TransducerGuesser):
//
// 1. FindToken: the predictor's only input of integers that is no length.
// 2. FindStates: inputs of floats, paired with outputs by name, then by order. Without them the
//    predictor is stateless and reads its last tokens.
// 3. FindJoiner: which of the joiner's two inputs takes the encoder's frames, by words in their
//    names, else by order. If predictor and joiner are one graph, FindScoresOfBoth.
// 4. FindLogits: the scores, the first of a list of tests that exactly one output passes, so that
//    an ambiguous graph is an error and not a guess.
// 5. FindFrames: the encoder's result of rank 3; of its axes, the one whose extent is the joiner's
//    width is the width, the other counts the frames.
//
// GuessCtcRoles and GuessTagRoles: the output with a column per label. If the graph computes the
// number of columns (view(frames, rows, -1)), it is run on two sources of unequal length
// (ColumnsByRun).
//
// Each guess is explained in `reasons`; an error lists the ports and names the flag that decides.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "ops/loop/model.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"

namespace beamwright::ops {
namespace {

int64_t LastExtent(const Port& port) {
  const PartialShape& shape = port.info.shape;
  return shape.has_rank() && shape.rank() > 0 ? shape.dims().back() : PartialShape::kDynamic;
}

bool IsFloatPort(const Port& port) { return IsFloat(port.info.dtype); }

bool IsTokenPort(const Graph& graph, const Port& port) {
  return (port.info.dtype == DType::kI64 || port.info.dtype == DType::kI32) &&
         GuessLengthKind(graph, port.node) == LengthKind::kNone;
}

bool HasRank(const Port& port, int rank) {
  return port.info.shape.has_rank() && port.info.shape.rank() == rank;
}

// The kind of the scores, by the last operator before the Result.
ScoreKind KindOfScores(const Graph& graph, const Port& scores, std::vector<std::string>& reasons) {
  const std::string op = LastOperatorOf(graph, scores.node);
  if (op == "LogSoftmax" || op == "Log") {
    reasons.push_back(absl::StrCat("they are log-probabilities: ", op, " computes them"));
    return ScoreKind::kLogProbs;
  }
  if (op == "SoftMax" || op == "Softmax") {
    reasons.push_back(absl::StrCat("they are probabilities: ", op, " computes them"));
    return ScoreKind::kProbabilities;
  }
  return ScoreKind::kLogits;
}

// The output that a flag names; else the first test that exactly one output passes gives it.
struct OutputTest {
  absl::string_view why;
  PortTest test;
};
absl::StatusOr<Port> FindOutput(const Ports& outputs, const std::string& told,
                                absl::string_view what, absl::Span<const OutputTest> tests,
                                std::vector<std::string>& reasons) {
  if (!told.empty()) {
    const Port* port = FindPort(outputs, told);
    if (port == nullptr || !IsFloatPort(*port)) {
      return Invalid("there is no output of floats '", told, "'; the outputs are ",
                     Listing(outputs));
    }
    reasons.push_back(absl::StrCat(what, " '", told, "': as given"));
    return *port;
  }
  for (const auto& [why, test] : tests) {
    const Ports found = Where(outputs, test);
    if (found.size() == 1) {
      reasons.push_back(absl::StrCat(what, " '", found[0].name, "': ", why));
      return found[0];
    }
  }
  const Ports floats = Where(outputs, IsFloatPort);
  return Invalid("the ", what, " is one of ", Listing(floats.empty() ? outputs : floats),
                 "; say which with --logits-output");
}

class TransducerGuesser {
 public:
  TransducerGuesser(const Graph* encoder, const Graph& predictor, const Graph* joiner,
                    const RoleHints& hints, std::vector<std::string>& reasons)
      : encoder_(encoder),
        predictor_(predictor),
        joiner_(joiner),
        hints_(hints),
        reasons_(reasons),
        inputs_(InputPorts(predictor)),
        outputs_(OutputPorts(predictor)) {}

  absl::StatusOr<TransducerRoles> Run() {
    BW_RETURN_IF_ERROR(FindToken());
    BW_RETURN_IF_ERROR(FindStates());
    BW_RETURN_IF_ERROR(joiner_ == nullptr ? FindScoresOfBoth() : FindJoiner());
    if (encoder_ != nullptr) {
      BW_RETURN_IF_ERROR(FindFrames());
    }
    return std::move(roles_);
  }

 private:
  bool IsState(const std::string& name) const {
    return std::any_of(
        roles_.predictor.states.begin(), roles_.predictor.states.end(),
        [&](const StateRole& state) { return state.input == name || state.output == name; });
  }

  absl::Status FindToken() {
    const Ports tokens = Where(inputs_, [&](const Port& port) {
      return hints_.token_input.empty() ? IsTokenPort(predictor_, port)
                                        : port.name == hints_.token_input;
    });
    if (tokens.size() != 1 || !IsInteger(tokens[0].info.dtype)) {
      return Invalid("the predictor's inputs are ", Listing(inputs_),
                     "; it must have one of i64 or i32 for tokens",
                     tokens.size() > 1 ? ": say which with --token-input" : "");
    }
    PredictorRoles& roles = roles_.predictor;
    roles.token_input = tokens[0].name;
    roles.tokens = LookedUpRows(predictor_, tokens[0].node);
    reasons_.push_back(absl::StrCat("predictor's token input '", roles.token_input, "': ",
                                    hints_.token_input.empty() ? "the only integers that are not a "
                                                                 "length"
                                                               : "as given"));
    const Ports lengths = Where(inputs_, [&](const Port& port) {
      return port.name != roles.token_input &&
             GuessLengthKind(predictor_, port.node) == LengthKind::kLengths;
    });
    if (lengths.size() == 1) {
      roles.length_input = lengths[0].name;
      reasons_.push_back(absl::StrCat("predictor's length input '", roles.length_input,
                                      "', always 1: by its name and type"));
    }
    const PartialShape& shape = tokens[0].info.shape;
    const bool told_apart = shape.has_rank() && shape.rank() == 2;
    roles.context_size = told_apart ? shape.dim(1) : 1;
    return absl::OkStatus();
  }

  // States are inputs of floats. If predictor and joiner are one graph, one of these inputs is for
  // the encoder's frames.
  absl::Status FindStates() {
    PredictorRoles& roles = roles_.predictor;
    const Ports floats = Where(inputs_, IsFloatPort);
    const size_t frames = joiner_ == nullptr ? 1 : 0;
    if (floats.size() <= frames && hints_.states.empty()) {
      if (roles.context_size < 1) {
        return Invalid("the predictor has no states, and '", roles.token_input,
                       "' leaves open how many tokens it reads: export it with that axis fixed");
      }
      reasons_.push_back(absl::StrCat("the predictor is stateless, and reads the last ",
                                      roles.context_size, " tokens: '", roles.token_input,
                                      "' has no more, and there is no state"));
      return absl::OkStatus();
    }
    roles.context_size = 0;
    DecoderGuess guess{predictor_, hints_, reasons_, inputs_, outputs_, {}};
    guess.roles.token_input = roles.token_input;
    BW_RETURN_IF_ERROR(PairStatesByName(guess));
    BW_RETURN_IF_ERROR(PairStatesByOrder(guess));
    roles.states = std::move(guess.roles.states);
    for (StateRole& state : roles.states) {
      state.starts_at_zero = true;
    }
    reasons_.push_back("the predictor's states start at zero: no encoder's result has their names");
    return absl::OkStatus();
  }

  Ports FreeInputs() const {
    return Where(inputs_,
                 [&](const Port& port) { return IsFloatPort(port) && !IsState(port.name); });
  }
  Ports FreeOutputs() const {
    return Where(outputs_,
                 [&](const Port& port) { return IsFloatPort(port) && !IsState(port.name); });
  }

  absl::Status FindScoresOfBoth() {
    const Ports frames = FreeInputs();
    if (frames.size() != 1) {
      return Invalid(
          "a predictor and a joiner in one take tokens, states and the encoder's frames; "
          "the inputs of floats that are no state are ",
          Listing(frames));
    }
    UseEncoderInput(frames[0]);
    return FindLogits(predictor_, FreeOutputs());
  }

  absl::Status FindJoiner() {
    const Ports predicted = FreeOutputs();
    if (predicted.size() != 1) {
      return Invalid("the predictor must have one output of floats besides its states; it has ",
                     Listing(predicted));
    }
    roles_.predictor.output = predicted[0].name;
    const Ports inputs = InputPorts(*joiner_);
    if (inputs.size() != 2 || !IsFloatPort(inputs[0]) || !IsFloatPort(inputs[1])) {
      return Invalid("the joiner's inputs are ", Listing(inputs),
                     "; it must have one for the encoder's frames and one for the predictor's "
                     "output. Are the graphs in the order ENCODER PREDICTOR JOINER?");
    }
    const absl::string_view encoder_words[] = {"encoder", "enc", "encoded", "am", "acoustic", "f"};
    const absl::string_view predictor_words[] = {"decoder", "dec", "predictor", "pred",
                                                 "prednet", "lm",  "g"};
    int encoder_at = -1;
    for (int i = 0; i < 2; ++i) {
      if (HasWord(inputs[static_cast<size_t>(i)].name, encoder_words) ||
          HasWord(inputs[static_cast<size_t>(1 - i)].name, predictor_words)) {
        encoder_at = encoder_at == -1 ? i : 2;
      }
    }
    const bool named = encoder_at == 0 || encoder_at == 1;
    const size_t encoder_index = named ? static_cast<size_t>(encoder_at) : 0;
    UseEncoderInput(inputs[encoder_index]);
    roles_.joiner.predictor_input = inputs[1 - encoder_index].name;
    reasons_.push_back(absl::StrCat(
        "joiner's inputs: '", roles_.joiner.encoder_input, "' takes the encoder's frames, '",
        roles_.joiner.predictor_input, "' what the predictor says: ",
        named ? "by their names" : "by their order, for want of names; check this"));
    return FindLogits(*joiner_, OutputPorts(*joiner_));
  }

  void UseEncoderInput(const Port& port) {
    roles_.joiner.encoder_input = port.name;
    for (int axis = 1; port.info.shape.has_rank() && axis < port.info.shape.rank(); ++axis) {
      if (port.info.shape.dim(axis) > 1) {
        roles_.joiner.frame_width = port.info.shape.dim(axis);
      }
    }
  }

  absl::Status FindLogits(const Graph& graph, const Ports& outputs) {
    const OutputTest tests[] = {
        {"the only output of floats that is no state", IsFloatPort},
        {"the output with a name for scores",
         [](const Port& port) {
           return IsFloatPort(port) && HasWord(port.name, {"logit", "logits", "logprobs", "probs"});
         }},
        {"the only output of floats whose last extent is known", [](const Port& port) {
           return IsFloatPort(port) && LastExtent(port) != PartialShape::kDynamic;
         }}};
    BW_ASSIGN_OR_RETURN(const Port logits,
                        FindOutput(outputs, hints_.logits_output, "logits", tests, reasons_));
    roles_.joiner.logits_output = logits.name;
    roles_.joiner.columns = LastExtent(logits);
    roles_.joiner.score_kind = KindOfScores(graph, logits, reasons_);
    if (roles_.joiner.columns == PartialShape::kDynamic) {
      return Invalid("'", logits.name, "' leaves open how many columns it has");
    }
    return absl::OkStatus();
  }

  // Which result of the encoder is the frames, and which of its axes counts them.
  absl::Status FindFrames() {
    const Ports outputs = OutputPorts(*encoder_);
    const Ports frames =
        Where(outputs, [](const Port& port) { return IsFloatPort(port) && HasRank(port, 3); });
    if (frames.size() != 1) {
      return Invalid("the encoder's frames must be its only result of floats of rank 3; it gives ",
                     Listing(outputs));
    }
    roles_.encoder_output = frames[0].name;
    const PartialShape& shape = frames[0].info.shape;
    const bool last_is_width = shape.dim(2) != PartialShape::kDynamic;
    const bool middle_is_width = shape.dim(1) != PartialShape::kDynamic;
    const int64_t width = roles_.joiner.frame_width;
    const auto clashes = [&](int axis) {
      return width > 0 && shape.dim(axis) != PartialShape::kDynamic && shape.dim(axis) != width;
    };
    roles_.frame_axis = middle_is_width && (!last_is_width || clashes(2)) ? 2 : 1;
    const int width_axis = 3 - roles_.frame_axis;
    if (clashes(width_axis)) {
      return Invalid("the encoder gives '", frames[0].name, "' ", shape.ToString(),
                     ", but the joiner takes frames of width ", width, " as '",
                     roles_.joiner.encoder_input, "'; are the files of one model?");
    }
    reasons_.push_back(absl::StrCat("frames: axis ", roles_.frame_axis, " of the encoder's '",
                                    frames[0].name, "' ", shape.ToString(), ", each of width ",
                                    width > 0 ? absl::StrCat(width) : "that is open"));
    return absl::OkStatus();
  }

  const Graph* const encoder_;
  const Graph& predictor_;
  const Graph* const joiner_;
  const RoleHints& hints_;
  std::vector<std::string>& reasons_;
  const Ports inputs_;
  const Ports outputs_;
  TransducerRoles roles_;
};

}  // namespace

bool ReadsNoTokens(const Graph& graph) {
  return Where(InputPorts(graph), [&](const Port& port) { return IsTokenPort(graph, port); })
      .empty();
}

bool IsJoiner(const Graph& graph) {
  const Ports inputs = InputPorts(graph);
  return inputs.size() == 2 && IsFloatPort(inputs[0]) && IsFloatPort(inputs[1]);
}

bool LooksLikeCtc(const Graph& graph) {
  const Ports scores = Where(
      OutputPorts(graph), [](const Port& port) { return IsFloatPort(port) && HasRank(port, 3); });
  return ReadsNoTokens(graph) && Where(InputPorts(graph), IsFloatPort).size() == 1 &&
         !scores.empty();
}

bool LooksLikeTagger(const Graph& graph, bool& reads_other_tokens) {
  // Tables of language models have rows for padding or a begin that no score is for.
  constexpr int64_t kMostSpare = 2;
  const Ports inputs = InputPorts(graph);
  const Ports tokens = Where(inputs, [&](const Port& port) { return IsTokenPort(graph, port); });
  // Encoders of decoders give first states, too.
  const Ports scores = Where(OutputPorts(graph), IsFloatPort);
  if (tokens.size() != 1 || !HasRank(tokens[0], 2) || !Where(inputs, IsFloatPort).empty() ||
      scores.size() != 1 || !HasRank(scores[0], 3) ||
      LastExtent(scores[0]) == PartialShape::kDynamic) {
    return false;
  }
  const int64_t rows = LookedUpRows(graph, tokens[0].node);
  const int64_t labels = LastExtent(scores[0]);
  reads_other_tokens = rows >= 0 && (labels < rows - kMostSpare || labels > rows + kMostSpare);
  return true;
}

bool LooksLikePredictor(const Graph& graph) {
  const Ports inputs = InputPorts(graph);
  const Ports outputs = OutputPorts(graph);
  return inputs.size() == 1 && IsTokenPort(graph, inputs[0]) && HasRank(inputs[0], 2) &&
         LastExtent(inputs[0]) > 0 && outputs.size() == 1 && IsFloatPort(outputs[0]);
}

bool IsPredictorAndJoiner(const Graph& graph) {
  // Scores of rank 4; a state of rank 4, as of linear attention, has an input of its shape.
  const Ports inputs = InputPorts(graph);
  const Ports scores = Where(OutputPorts(graph), [&](const Port& port) {
    return IsFloatPort(port) && HasRank(port, 4) && LastExtent(port) != PartialShape::kDynamic &&
           Where(inputs, [&](const Port& input) {
             return HasRank(input, 4) && Fits(input.info, port.info);
           }).empty();
  });
  return !ReadsNoTokens(graph) && scores.size() == 1;
}

namespace {

// The result at `result` of a run of the graph on one source whose open extents are `extent`; none
// if it fails.
std::optional<Tensor> ResultOfRun(const Model& model, const Graph& graph, size_t result,
                                  int64_t extent) {
  std::vector<Tensor> inputs;
  for (const int parameter : graph.parameters) {
    const ValueInfo& info = graph.node(parameter).outputs[0];
    Shape dims = info.shape.has_rank() ? info.shape.dims() : Shape{1};
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      dims[axis] = dims[axis] != PartialShape::kDynamic ? dims[axis] : axis == 0 ? 1 : extent;
    }
    inputs.push_back(Tensor::Zeros(info.dtype, dims));
    if (IsInteger(info.dtype)) {  // a length
      inputs.back() = *Convert(Tensor::Of<int64_t>({1}, std::vector<int64_t>{extent}), info.dtype);
    }
  }
  std::vector<Tensor> outputs;
  return model.Run(ExecutionContext(), inputs, outputs).ok() ? std::make_optional(outputs[result])
                                                             : std::nullopt;
}

// The columns of scores whose number the graph computes, as with `view(frames, rows, -1)`: those of
// runs on two sources of unequal length, if both runs have the same number. -1: unknown.
int64_t ColumnsByRun(const Graph& graph, const Port& scores) {
  constexpr int64_t kExtents[] = {128, 192};
  const auto model = Model::Compile(graph);
  const auto at = std::find(graph.results.begin(), graph.results.end(), scores.node);
  if (!model.ok() || at == graph.results.end()) {
    return PartialShape::kDynamic;
  }
  int64_t columns = PartialShape::kDynamic;
  for (const int64_t extent : kExtents) {
    const auto result =
        ResultOfRun(**model, graph, static_cast<size_t>(at - graph.results.begin()), extent);
    const bool fits = result.has_value() && result->rank() == 3 &&
                      (columns == PartialShape::kDynamic || result->dim(2) == columns);
    if (!fits) {
      return PartialShape::kDynamic;
    }
    columns = result->dim(2);
  }
  return columns;
}

}  // namespace

namespace {

// what: "CTC output", for reasons and errors.
absl::StatusOr<CtcRoles> GuessColumns(const Graph& encoder, const std::string& what,
                                      const RoleHints& hints, std::vector<std::string>& reasons) {
  const auto could_be = [](const Port& port) {
    return IsFloatPort(port) && HasRank(port, 3) && LastExtent(port) != PartialShape::kDynamic;
  };
  const OutputTest tests[] = {
      {"the only output of floats", IsFloatPort},
      {"the only output of floats, rank 3 and a known last extent", could_be},
      {"the only output as wide as the vocabulary",
       [&](const Port& port) {
         return could_be(port) &&
                (LastExtent(port) == hints.target_ids || LastExtent(port) == hints.target_ids + 1);
       }},
      {"the output with a name for scores", [&](const Port& port) {
         return could_be(port) &&
                HasWord(port.name, {"ctc", "logit", "logits", "logprobs", "log", "probs"});
       }}};
  BW_ASSIGN_OR_RETURN(const Port scores,
                      FindOutput(OutputPorts(encoder), hints.logits_output, what, tests, reasons));
  const bool is_open = IsFloatPort(scores) && HasRank(scores, 3) && !could_be(scores);
  const int64_t computed = is_open ? ColumnsByRun(encoder, scores) : PartialShape::kDynamic;
  if (computed != PartialShape::kDynamic) {
    reasons.push_back(absl::StrCat("its ", computed,
                                   " columns are those of runs on two sources of zeros: the graph "
                                   "does not declare them"));
  }
  if (!could_be(scores) && computed == PartialShape::kDynamic) {
    return Invalid("'", scores.name, "' ", scores.info.shape.ToString(), " is no ", what,
                   ", [rows, frames, columns] or [frames, rows, columns] with a "
                   "number of columns that is known");
  }
  CtcRoles roles;
  roles.output = scores.name;
  roles.columns = could_be(scores) ? LastExtent(scores) : computed;
  roles.score_kind = KindOfScores(encoder, scores, reasons);
  return roles;
}

}  // namespace

absl::StatusOr<CtcRoles> GuessCtcRoles(const Graph& encoder, const RoleHints& hints,
                                       std::vector<std::string>& reasons) {
  return GuessColumns(encoder, "CTC output", hints, reasons);
}

absl::StatusOr<CtcRoles> GuessTagRoles(const Graph& encoder, const RoleHints& hints,
                                       std::vector<std::string>& reasons) {
  return GuessColumns(encoder, "output with scores of labels", hints, reasons);
}

absl::StatusOr<TransducerRoles> GuessTransducerRoles(const Graph* encoder, const Graph& predictor,
                                                     const Graph* joiner, const RoleHints& hints,
                                                     std::vector<std::string>& reasons) {
  return TransducerGuesser(encoder, predictor, joiner, hints, reasons).Run();
}

}  // namespace beamwright::ops
