// Guesses what the ports of models that search by frames are for: encoders with a CTC output, and
// transducers' predictors and joiners, as toolkits export them. Like roles.h: each guess leaves one
// line that says why; where a graph leaves a choice open, the error names the candidates.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_FRAME_ROLES_H_
#define BEAMWRIGHT_TOOLS_GRAPH_FRAME_ROLES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/graph/roles.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_TOOLS_GRAPH_FRAME_ROLES_H_
