// Guesses what the ports of an encoder and a decoder are for, from their names, types and shapes:
// what `beamwright-graph init` writes into model.textproto (docs/bundle.md). Each guess leaves one
// line that says why; where a graph leaves a choice open, the error names the candidates.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_ROLES_H_
#define BEAMWRIGHT_TOOLS_GRAPH_ROLES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/graph.h"
#include "ops/kernels/topk.h"

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_ROLES_H_
