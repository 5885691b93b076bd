// Guesses what the ports of an encoder and a decoder are for, from their names, types and shapes:
// what `beamwright-graph init` writes into model.textproto (docs/bundle.md). Each guess leaves one
// line that says why; where a graph leaves a choice open, the error names the candidates.
//
// Models that search by frames have other roles: `frame_roles.cc`.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_ROLES_H_
#define BEAMWRIGHT_TOOLS_GRAPH_ROLES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/graph.h"
#include "ops/kernels/topk.h"
#include "tools/graph/ports.h"

namespace beamwright::ops {

// How a graph gets the length of its source (docs/bundle.md, 'The encoder').
enum class LengthKind { kNone, kLengths, kMask, kAdditiveMask };

// What a Parameter's name and type say. Masks are distinguished by what the graph does with them.
LengthKind GuessLengthKind(const Graph& graph, int parameter);

// Ports are called by their PortName.
struct EncoderRoles {
  std::string input;
  int64_t source_ids = -1;  // rows of the table that the ids are looked up in; -1: not known
  LengthKind length_kind = LengthKind::kNone;
  std::string length_input;
  // As FindLengthAxis finds it; 0: left open.
  int length_axis = 1;
  std::vector<std::string> further_inputs;  // further parts of requests besides the source
};

struct StateRole {
  std::string input;
  std::string output;           // empty: a loop's own back edge, or the number of the step
  std::string encoder_output;   // where it starts; empty: see starts_at_zero
  bool starts_at_zero = false;  // or with `constant`
  float constant = 0;
};

struct MemoryRole {
  std::string input;
  std::string encoder_output;
  LengthKind length_kind = LengthKind::kNone;
};

struct DecoderRoles {
  bool has_loop = false;  // else it is a step graph
  std::string token_input;
  std::vector<StateRole> states;
  std::vector<MemoryRole> memory;
  std::string logits_output;
  ScoreKind score_kind = ScoreKind::kLogits;
  int64_t target_ids = -1;  // extent of the logits' last axis; -1: not known
  std::string attention_output;
};

// What the user knows better; empty or -1: guess.
struct RoleHints {
  std::string token_input;
  std::string logits_output;
  std::map<std::string, std::string> states;  // input -> output
  int64_t target_ids = -1;
};

// The graphs are as InferGraph leaves them. `reasons` gets a line for each guess.
// `source_input`: the Parameter that takes the source; empty: guess.
absl::StatusOr<EncoderRoles> GuessEncoderRoles(const Graph& encoder,
                                               std::vector<std::string>& reasons,
                                               const std::string& source_input = "");
// `encoder`: null if requests bring the decoder's inputs.
absl::StatusOr<DecoderRoles> GuessDecoderRoles(const Graph& decoder, const Graph* encoder,
                                               const RoleHints& hints,
                                               std::vector<std::string>& reasons);

// The same ports as CompileDecoder takes them, and as `init` writes them into model.textproto.
DecoderPorts PortsOf(const DecoderRoles& roles);

// What the parts of guessing a decoder's roles share: roles.cc finds token, logits and
// attention, roles_states.cc pairs states, roles_states.cc finds where they and the memory come
// from.

// Of the output that an importer makes of a variable's start (docs/graph-files.md, 'Variables').
inline constexpr char kInitialSuffix[] = "/initial";

struct DecoderGuess {
  const Graph& graph;
  const RoleHints& hints;
  std::vector<std::string>& reasons;
  Ports inputs;
  Ports outputs;  // but for those of `initial`
  Ports initial;  // what a variable begins with: output 'v/initial' of an input 'v'
  bool has_encoder = false;
  Ports encoder_outputs;
  DecoderRoles roles;  // what is found so far

  template <typename... Pieces>
  void Because(const Pieces&... pieces) {
    reasons.push_back(absl::StrCat(pieces...));
  }
  bool IsEncoderOutput(const Port& port) const {
    return FindPort(encoder_outputs, port.name) != nullptr;
  }
  // Whether the port belongs to a state.
  bool IsTaken(const Port& port) const;
  // Whether nothing is known of the port yet.
  bool IsFreeInput(const Port& port) const;
  bool IsFreeOutput(const Port& port) const;
};

// Whether a state's next value is the state with something joined to it: a cache that grows.
bool Grows(const Graph& graph, int parameter, int result);
// Whether an input takes the number of the step, by its name and type.
bool LooksLikeCount(const Port& port);

// Of a step graph: the pairs of flags, then inputs and outputs of one name, then of names
// alike. An error names the candidates where several are.
absl::Status PairStatesByName(DecoderGuess& guess);
// Then, where names do not match, as many inputs as outputs of one type and shape, in order. An
// error if they are not as many, or if there is no state at all.
absl::Status PairStatesByOrder(DecoderGuess& guess);
// Where states start, and what feeds every other input. An error names an input that nothing feeds.
absl::Status FindStarts(DecoderGuess& guess);

// Guesses what the ports of models that search by frames are for: encoders with a CTC output, and
// transducers' predictors and joiners, as toolkits export them. As above, each guess leaves one
// line that says why; where a graph leaves a choice open, the error names the candidates.

// Of taggers as well, whose columns are labels.
struct CtcRoles {
  std::string output;  // [rows, frames, columns] or [frames, rows, columns]
  ScoreKind score_kind = ScoreKind::kLogits;
  int64_t columns = -1;
};

struct PredictorRoles {
  std::string token_input;
  std::string length_input;       // empty: none
  std::vector<StateRole> states;  // none: it reads the last context_size tokens
  int64_t context_size = 0;
  std::string output;   // empty: the graph is the joiner as well
  int64_t tokens = -1;  // rows of the table that its tokens are looked up in; -1: not known
};

struct JoinerRoles {
  std::string encoder_input;
  std::string predictor_input;  // empty: one graph for both
  std::string logits_output;
  ScoreKind score_kind = ScoreKind::kLogits;
  int64_t columns = -1;
  int64_t frame_width = -1;  // of encoder_input; -1: not known
};

struct TransducerRoles {
  PredictorRoles predictor;
  JoinerRoles joiner;
  std::string encoder_output;  // empty: there is no encoder
  int frame_axis = 1;          // of encoder_output
};

// Graphs as InferGraph leaves them.

// Whether the graph can only be a joiner: two inputs of floats, and no other.
bool IsJoiner(const Graph& graph);
// Whether it is a predictor and a joiner in one: it reads tokens, and gives scores for every pair
// of a frame and a token, [rows, frames, tokens, columns].
bool IsPredictorAndJoiner(const Graph& graph);
// Whether it can be a CTC model: one input of floats, others that are lengths, and scores of three
// axes.
bool LooksLikeCtc(const Graph& graph);
// Whether it can be a predictor without states: it reads the last tokens, of each row a fixed
// number, and gives one output of floats.
bool LooksLikePredictor(const Graph& graph);
// Whether it can be a tagger: it reads tokens of a source, and gives scores of three axes for as
// many labels as the file says. So does a language model, but its labels are the tokens that it
// reads: of those that read about as many tokens as they have labels, nothing but a flag says which
// it is, and `reads_other_tokens` is false.
bool LooksLikeTagger(const Graph& graph, bool& reads_other_tokens);
// Whether it reads no tokens: every integer input is a length.
bool ReadsNoTokens(const Graph& graph);

// `hints`: `logits_output` is the user's choice of the output.
absl::StatusOr<CtcRoles> GuessCtcRoles(const Graph& encoder, const RoleHints& hints,
                                       std::vector<std::string>& reasons);
// The same of a tagger's scores of labels.
absl::StatusOr<CtcRoles> GuessTagRoles(const Graph& encoder, const RoleHints& hints,
                                       std::vector<std::string>& reasons);
// `encoder`: null if requests bring its frames. `joiner`: null if `predictor` is both.
absl::StatusOr<TransducerRoles> GuessTransducerRoles(const Graph* encoder, const Graph& predictor,
                                                     const Graph* joiner, const RoleHints& hints,
                                                     std::vector<std::string>& reasons);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_ROLES_H_
