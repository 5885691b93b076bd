// The roles of an encoder's and a decoder's ports: token, logits, attention, and what the encoder
// computed.
#include "tools/graph/roles.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/compile/program.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/inference.h"
#include "ops/graph/trace.h"
#include "ops/loop/operators.h"
#include "tools/graph/ports.h"

namespace beamwright::ops {

// Guesses the roles of an encoder's inputs from their names, types and shapes, for a new bundle:
// which takes the source, which its length or a mask, and which requests must bring
// (GuessEncoderRoles).
//
// 1. An input with a name such as "lengths" or "mask", and a type and rank that fit, has the length
//    (GuessLengthKind). At most one may.
// 2. Of the others, one is the source: the one that the user named, the only one, the only one with
//    an open length, or the only one with a usual name (ChooseSource). A graph that looks like a
//    step of a decoder is refused instead.
// 3. The axis of the length and the number of ids follow from the source's shape and the table that
//    it is looked up in.
//
// Each decision adds a sentence to `reasons`, which the user reads.

LengthKind GuessLengthKind(const Graph& graph, int parameter) {
  const std::string name = PortName(graph, parameter);
  const ValueInfo& info = graph.node(parameter).outputs[0];
  const int rank = info.shape.has_rank() ? info.shape.rank() : 1;
  if (IsInteger(info.dtype) && rank <= 1 &&
      HasWord(name, {"length", "lengths", "len", "lens", "seqlen", "seqlens"})) {
    return LengthKind::kLengths;
  }
  if (HasWord(name, {"mask", "masks"}) && rank <= 2) {
    // A padding mask is true where there is no token: zeros at every real one, like what is added
    // to scores.
    const bool zero_at_tokens = HasWord(name, {"pad", "padding", "additive", "bias"}) ||
                                FirstOperatorOn(graph, parameter) == "Add";
    return zero_at_tokens ? LengthKind::kAdditiveMask : LengthKind::kMask;
  }
  return LengthKind::kNone;
}

namespace {

bool IsOpen(const Port& port) {
  const Shape& dims = port.info.shape.dims();
  return port.info.shape.has_rank() && dims.size() > 1 &&
         std::find(dims.begin() + 1, dims.end(), PartialShape::kDynamic) != dims.end();
}

// A graph with a token of each row and states is the step of a decoder.
bool IsStep(const Ports& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Port& port) {
    const PartialShape& shape = port.info.shape;
    return IsInteger(port.info.dtype) && shape.has_rank() &&
           (shape.rank() == 1 || (shape.rank() == 2 && shape.dim(1) == 1)) &&
           HasWord(port.name, {"token", "tokens", "ids", "input", "y"});
  });
}

// Which of several inputs takes the source, and why.
absl::StatusOr<Port> ChooseSource(const Ports& sources, std::string& why) {
  const Ports open = Where(sources, IsOpen);
  const Ports named = Where(open, [](const Port& port) {
    return HasWord(port.name, {"source", "src", "tokens", "text", "ids", "input", "x", "audio",
                               "speech", "features", "frames", "image"});
  });
  if (!IsStep(sources) && open.size() == 1) {
    why = "the only one whose length is open";
    return open[0];
  }
  if (!IsStep(sources) && named.size() == 1) {
    why = "by its name";
    return named[0];
  }
  return Invalid("the encoder's inputs are ", Listing(sources),
                 ", and which of them takes the source is left open; say which with "
                 "--source-input, and requests bring the others. Is it the decoder?");
}

}  // namespace

absl::StatusOr<EncoderRoles> GuessEncoderRoles(const Graph& encoder,
                                               std::vector<std::string>& reasons,
                                               const std::string& source_input) {
  const Ports inputs = InputPorts(encoder);
  const auto tells_length = [&](const Port& port) {
    return inputs.size() > 1 && port.name != source_input &&
           GuessLengthKind(encoder, port.node) != LengthKind::kNone;
  };
  const Ports lengths = Where(inputs, tells_length);
  const Ports sources = Where(inputs, [&](const Port& port) { return !tells_length(port); });
  if (sources.empty() || lengths.size() > 1) {
    return Invalid("the encoder's inputs are ", Listing(inputs),
                   "; it must have one for the source, and may have one for the source's length or "
                   "a mask. Is it the decoder?");
  }
  std::string why = inputs.size() == 1 ? "the only one" : "the one that is not the length";
  Port source = sources[0];
  if (const Port* told = FindPort(sources, source_input); told != nullptr) {
    source = *told;
    why = "you said so";
  } else if (!source_input.empty()) {
    return Invalid("--source-input: there is no input '", source_input, "'; there are ",
                   Listing(sources));
  } else if (sources.size() > 1) {
    BW_ASSIGN_OR_RETURN(source, ChooseSource(sources, why));
  }
  EncoderRoles roles;
  roles.input = source.name;
  if (IsInteger(source.info.dtype)) {
    roles.source_ids = LookedUpRows(encoder, source.node);
  }
  roles.length_axis = FindLengthAxis(source.info.shape);
  reasons.push_back(absl::StrCat("encoder input '", roles.input, "': ", why));
  for (const Port& port : sources) {
    if (port.name != roles.input) {
      roles.further_inputs.push_back(port.name);
      reasons.push_back(absl::StrCat("encoder input '", port.name, "' ", Name(port.info.dtype),
                                     port.info.shape.ToString(),
                                     ": requests bring it (further_inputs); for one that never "
                                     "changes add `constant` in the file"));
    }
  }
  if (roles.length_axis > 1) {
    reasons.push_back(absl::StrCat("source length: axis ", roles.length_axis, " of '", roles.input,
                                   "' ", source.info.shape.ToString(),
                                   ", the only open one besides the rows"));
  }
  if (roles.source_ids >= 0) {
    reasons.push_back(absl::StrCat("source ids below ", roles.source_ids,
                                   ": rows of the table that '", roles.input, "' is looked up in"));
  }
  if (!lengths.empty()) {
    roles.length_input = lengths[0].name;
    roles.length_kind = GuessLengthKind(encoder, lengths[0].node);
    reasons.push_back(
        absl::StrCat("encoder length input '", roles.length_input, "': by its name and type"));
  }
  return roles;
}

// Guesses what the ports of a decoder's graph are for (GuessDecoderRoles). A decoder is either a
// step, whose states are ports, or a loop over the whole target, whose states are inside.
//
// 1. TakeOneHotTokens: a graph without integers may read its tokens as one-hot vectors; such an
//    input is changed to ids first.
// 2. FindToken: the token input. A loop that slices what is computed from it shows a decoder over
//    sequences; it must not run backwards (CheckDirection).
// 3. PairStatesByName: states of a step, by names that are alike but for words such as "new" or
//    "next".
// 4. FindLogits: the scores, among the outputs that are no states; FindAttention: an output that is
//    named as attention, or whose last extent is open, as a source's length is.
// 5. PairStatesByOrder pairs what is left; FindStarts says where states begin: an output of the
//    encoder, or zeros.
//
// Each search is a list of tests in order of certainty; a test decides only if exactly one port
// passes it. If no test decides, the error lists the candidates and names the flag that does.

namespace {

constexpr absl::string_view kTokenWords[] = {"token",  "tokens", "id",   "ids",   "word",
                                             "words",  "symbol", "char", "label", "labels",
                                             "target", "tgt",    "trg",  "y"};
constexpr absl::string_view kScoreWords[] = {"logit", "logits", "logprob", "logprobs",      "prob",
                                             "probs", "scores", "score",   "probabilities", "log"};
constexpr absl::string_view kAttentionWords[] = {"attention", "attn",       "att",   "align",
                                                 "alignment", "alignments", "alpha", "weights"};

int64_t LastExtent(const ValueInfo& info) {
  return info.shape.has_rank() && info.shape.rank() > 0 ? info.shape.dims().back()
                                                        : PartialShape::kDynamic;
}

class DecoderGuesser {
 public:
  explicit DecoderGuesser(DecoderGuess& guess) : guess_(guess) {}

  absl::Status Run() {
    BW_RETURN_IF_ERROR(FindToken());
    if (guess_.roles.has_loop) {
      BW_RETURN_IF_ERROR(CheckDirection());
    } else {
      BW_RETURN_IF_ERROR(PairStatesByName(guess_));
    }
    BW_RETURN_IF_ERROR(FindLogits());
    FindAttention();
    if (!guess_.roles.has_loop) {
      BW_RETURN_IF_ERROR(PairStatesByOrder(guess_));
    }
    return FindStarts(guess_);
  }

 private:
  // Whether a loop may pick parts out of its inputs by the iteration's number.
  static bool Counts(const Loop& loop) {
    return std::any_of(loop.inputs.begin(), loop.inputs.end(), [](const LoopInput& rule) {
      return rule.kind == LoopInput::Kind::kIteration;
    });
  }

  // Whether an input has one token per row. A `while` around a layer (Keras) picks from a single
  // token as from many, so such an input is that of a step.
  bool HasOneToken(int parameter) const {
    const PartialShape& shape = guess_.graph.node(parameter).outputs[0].shape;
    return shape.has_rank() && shape.rank() == 2 && shape.dims()[1] == 1;
  }

  // Parameters that some top-level loop's slices, or what it picks them from, are computed from.
  std::set<int> SlicedParameters() const {
    std::vector<ValueId> values;
    std::vector<ValueId> picked;
    for (const Node& node : guess_.graph.nodes) {
      for (size_t i = 0; node.loop != nullptr && i < node.loop->inputs.size(); ++i) {
        const LoopInput& rule = node.loop->inputs[i];
        if (rule.kind == LoopInput::Kind::kSliced) {
          values.push_back(node.inputs[static_cast<size_t>(rule.input)]);
        } else if (rule.kind == LoopInput::Kind::kInvariant && Counts(*node.loop)) {
          picked.push_back(node.inputs[static_cast<size_t>(rule.input)]);
        }
      }
    }
    const std::vector<bool> slices = AncestorsOf(guess_.graph, values);
    const std::vector<bool> picks = AncestorsOf(guess_.graph, picked);
    std::set<int> found;
    for (const int parameter : guess_.graph.parameters) {
      const auto at = static_cast<size_t>(parameter);
      if (slices[at] || (picks[at] && !HasOneToken(parameter))) {
        found.insert(parameter);
      }
    }
    return found;
  }

  absl::Status UseToken(const Port& port, absl::string_view why, const std::set<int>& sliced) {
    guess_.roles.token_input = port.name;
    guess_.roles.has_loop = sliced.count(port.node) > 0;
    guess_.Because("token input '", port.name, "': ", why);
    guess_.Because(guess_.roles.has_loop ? "a loop over the target sequence: it slices what '"
                                         : "a step graph: no loop slices what '",
                   port.name, "' gives");
    return absl::OkStatus();
  }

  absl::Status FindToken() {
    const std::set<int> sliced = SlicedParameters();
    const auto is_id = [](const Port& port) {
      return port.info.dtype == DType::kI64 || port.info.dtype == DType::kI32;
    };
    if (!guess_.hints.token_input.empty()) {
      const Port* port = FindPort(guess_.inputs, guess_.hints.token_input);
      return port != nullptr && is_id(*port)
                 ? UseToken(*port, "as given", sliced)
                 : Invalid("token input '", guess_.hints.token_input,
                           "' is not an i64 or i32 input of the decoder, which has ",
                           Listing(guess_.inputs));
    }
    const Ports ids = Where(guess_.inputs, is_id);
    if (ids.empty()) {
      return Invalid("the decoder has no i64 or i32 input to read tokens from; it has ",
                     Listing(guess_.inputs),
                     ". One that takes them one-hot is known by the target's vocabulary, or by "
                     "--token-input");
    }
    Ports left = Where(ids, [&](const Port& port) {
      return !guess_.IsEncoderOutput(port) &&
             GuessLengthKind(guess_.graph, port.node) == LengthKind::kNone;
    });
    // A search counts the steps.
    if (const Ports uncounted = Where(left, [](const Port& port) { return !LooksLikeCount(port); });
        !uncounted.empty()) {
      left = uncounted;
    }
    if (left.size() == 1) {
      return UseToken(left[0],
                      ids.size() == 1
                          ? "the only integer input"
                          : "the only integer input that is not a length, mask or result "
                            "of the encoder",
                      sliced);
    }
    const struct {
      absl::string_view why;
      PortTest test;
    } tests[] = {
        {"the only integer input that a loop slices",
         [&](const Port& port) { return sliced.count(port.node) > 0; }},
        {"the integer input with a name for tokens",
         [](const Port& port) { return HasWord(port.name, kTokenWords); }},
        {"the only integer input that is looked up in a table",
         [&](const Port& port) { return LookedUpRows(guess_.graph, port.node) >= 0; }},
    };
    for (const auto& [why, test] : tests) {
      const Ports found = Where(left, test);
      if (found.size() == 1) {
        return UseToken(found[0], why, sliced);
      }
    }
    return Invalid("the token input is one of ", Listing(left.empty() ? ids : left),
                   "; say which with --token-input");
  }

  // A search feeds tokens from the first on.
  absl::Status CheckDirection() const {
    for (const Node& node : guess_.graph.nodes) {
      for (size_t i = 0; node.loop != nullptr && i < node.loop->inputs.size(); ++i) {
        const LoopInput& rule = node.loop->inputs[i];
        if (rule.kind == LoopInput::Kind::kSliced && rule.stride < 0) {
          return Invalid(Describe(node),
                         " reads its input backwards, which no decoder can: is this "
                         "the encoder?");
        }
      }
    }
    return absl::OkStatus();
  }

  void UseLogits(const Port& port, absl::string_view why) {
    guess_.roles.logits_output = port.name;
    guess_.roles.target_ids = LastExtent(port.info);
    const std::string op = LastOperatorOf(guess_.graph, port.node);
    if (op == "LogSoftmax" || op == "Log") {
      guess_.roles.score_kind = ScoreKind::kLogProbs;
    } else if (op == "SoftMax" || op == "Softmax") {
      guess_.roles.score_kind = ScoreKind::kProbabilities;
    }
    guess_.Because("logits '", port.name, "': ", why);
    if (guess_.roles.score_kind != ScoreKind::kLogits) {
      const bool logs = guess_.roles.score_kind == ScoreKind::kLogProbs;
      guess_.Because("they are ", logs ? "log-probabilities" : "probabilities", ": ", op,
                     " computes them");
    }
  }

  absl::Status FindLogits() {
    if (!guess_.hints.logits_output.empty()) {
      const Port* port = FindPort(guess_.outputs, guess_.hints.logits_output);
      if (port == nullptr) {
        return Invalid("the decoder has no output '", guess_.hints.logits_output, "'; it has ",
                       Listing(guess_.outputs));
      }
      // An open extent may be the vocabulary's, unless another output is known to be as wide.
      const bool is_open = LastExtent(port->info) == PartialShape::kDynamic;
      const Ports wide = Where(guess_.outputs, [&](const Port& other) {
        return guess_.hints.target_ids >= 0 && LastExtent(other.info) == guess_.hints.target_ids;
      });
      if (!IsFloat(port->info.dtype) || (is_open && !wide.empty())) {
        return Invalid("'", port->name, "' is not the logits, floats with one for each token of ",
                       "the target; the outputs are ", Listing(guess_.outputs));
      }
      UseLogits(*port, "as given");
      return absl::OkStatus();
    }
    const Ports free =
        Where(guess_.outputs, [&](const Port& port) { return !guess_.IsTaken(port); });
    if (free.size() == 1 && IsFloat(free[0].info.dtype)) {
      UseLogits(free[0],
                guess_.outputs.size() == 1 ? "the only output" : "the only one that is no state");
      return absl::OkStatus();
    }
    const Ports known = Where(free, [](const Port& port) {
      return IsFloat(port.info.dtype) && LastExtent(port.info) != PartialShape::kDynamic;
    });
    const Port* const token = FindPort(guess_.inputs, guess_.roles.token_input);
    const auto largest = std::max_element(
        known.begin(), known.end(),
        [](const Port& a, const Port& b) { return LastExtent(a.info) < LastExtent(b.info); });
    const struct {
      absl::string_view why;
      PortTest test;
    } tests[] = {
        {"the only output whose last extent is known", [](const Port&) { return true; }},
        {"the only output as wide as the target vocabulary",
         [&](const Port& port) { return LastExtent(port.info) == guess_.hints.target_ids; }},
        {"the output with a name for scores",
         [](const Port& port) { return HasWord(port.name, kScoreWords); }},
        {"the only output with a score for every token of the target",
         [&](const Port& port) {
           return guess_.roles.has_loop && port.info.shape.rank() == token->info.shape.rank() + 1;
         }},
        {"the only output unlike every input",
         [&](const Port& port) {
           return std::none_of(guess_.inputs.begin(), guess_.inputs.end(), [&](const Port& input) {
             return input.info.dtype == port.info.dtype && input.info.shape == port.info.shape;
           });
         }},
        {"the widest output",
         [&](const Port& port) { return LastExtent(port.info) == LastExtent(largest->info); }},
    };
    for (const auto& [why, test] : tests) {
      const Ports found = Where(known, test);
      if (found.size() == 1) {
        UseLogits(found[0], why);
        return absl::OkStatus();
      }
    }
    return known.empty()
               ? Invalid(
                     "no output can be the logits: none is of floats with a known last extent "
                     "and no state; the outputs are ",
                     Listing(guess_.outputs))
               : Invalid("the logits are one of ", Listing(known),
                         "; say which with --logits-output");
  }

  void FindAttention() {
    const Ports free = Where(guess_.outputs, [&](const Port& port) {
      return guess_.IsFreeOutput(port) && IsFloat(port.info.dtype);
    });
    const Ports named =
        Where(free, [](const Port& port) { return HasWord(port.name, kAttentionWords); });
    const Ports ragged = Where(free, [](const Port& port) {
      return port.info.shape.rank() >= 2 && LastExtent(port.info) == PartialShape::kDynamic;
    });
    const Ports& found = named.empty() ? ragged : named;
    if (found.size() == 1) {
      guess_.roles.attention_output = found[0].name;
      guess_.Because("attention '", found[0].name,
                     "': ", named.empty() ? "its last extent is that of a source" : "by its name");
    } else if (!found.empty()) {
      guess_.Because("attention: none, for it could be any of ", Listing(found));
    }
  }

  DecoderGuess& guess_;
};

// A graph without integers may take its tokens one-hot: as the only input of floats that is as wide
// as the target's vocabulary, and no result of the encoder. Where the vocabulary has one token
// more, that one is a vector of zeros, and hints.target_ids becomes the number of the others.
absl::Status TakeOneHotTokens(Graph& decoder, const Graph* encoder, RoleHints& hints,
                              std::vector<std::string>& reasons) {
  const Ports encoded = encoder == nullptr ? Ports() : OutputPorts(*encoder);
  Ports found;
  Ports shorter;
  for (const Port& port : InputPorts(decoder)) {
    const bool told = port.name == hints.token_input;
    if (IsInteger(port.info.dtype) && (told || hints.token_input.empty())) {
      return absl::OkStatus();
    }
    const int64_t tokens = OneHotTokens(decoder, port.node);
    const bool may_be = hints.token_input.empty() && FindPort(encoded, port.name) == nullptr;
    if (tokens > 0 && (told || (may_be && tokens == hints.target_ids))) {
      found.push_back(port);
    } else if (tokens > 0 && may_be && tokens + 1 == hints.target_ids) {
      shorter.push_back(port);
    }
  }
  found = found.empty() ? shorter : found;
  if (found.size() != 1) {
    return absl::OkStatus();
  }
  reasons.push_back(absl::StrCat("tokens are one-hot: '", found[0].name,
                                 "' has one float for each of ",
                                 OneHotTokens(decoder, found[0].node), " tokens of the target"));
  if (OneHotTokens(decoder, found[0].node) + 1 == hints.target_ids) {
    reasons.push_back("the target's last token is a vector of zeros, which can only begin");
    --hints.target_ids;
  }
  TakeIds(decoder, found[0].node);
  return InferGraph(decoder, Operators()).status();
}

}  // namespace

absl::StatusOr<DecoderRoles> GuessDecoderRoles(const Graph& file, const Graph* encoder,
                                               const RoleHints& hints,
                                               std::vector<std::string>& reasons) {
  Graph decoder = file;
  RoleHints own = hints;
  BW_RETURN_IF_ERROR(TakeOneHotTokens(decoder, encoder, own, reasons));
  const Ports inputs = InputPorts(decoder);
  const auto is_initial = [&](const Port& port) {
    return absl::EndsWith(port.name, kInitialSuffix) &&
           FindPort(inputs, std::string(absl::StripSuffix(port.name, kInitialSuffix))) != nullptr;
  };
  const Ports outputs = OutputPorts(decoder);
  DecoderGuess guess{decoder,
                     own,
                     reasons,
                     inputs,
                     Where(outputs, [&](const Port& port) { return !is_initial(port); }),
                     Where(outputs, is_initial)};
  if (encoder != nullptr) {
    guess.has_encoder = true;
    guess.encoder_outputs = OutputPorts(*encoder);
  }
  BW_RETURN_IF_ERROR(DecoderGuesser(guess).Run());
  if (guess.roles.target_ids >= 0) {
    guess.roles.target_ids += hints.target_ids - own.target_ids;
  }
  return std::move(guess.roles);
}

}  // namespace beamwright::ops
