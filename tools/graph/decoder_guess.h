// What the parts of guessing a decoder's roles share: roles.cc finds token, logits and
// attention, roles_states.cc pairs states, roles_states.cc finds where they and the memory come
// from. Private to tools/.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_DECODER_GUESS_H_
#define BEAMWRIGHT_TOOLS_GRAPH_DECODER_GUESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_DECODER_GUESS_H_
