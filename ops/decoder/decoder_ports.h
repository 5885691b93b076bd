// The inputs and outputs of a graph as a search has them: which it uses, their types as requests
// bring them, and tokens that a graph takes one-hot.
#ifndef BEAMWRIGHT_OPS_DECODER_DECODER_PORTS_H_
#define BEAMWRIGHT_OPS_DECODER_DECODER_PORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// Which inputs and outputs of a graph a search uses, by PortName: as model.textproto names them
// (docs/bundle.md, 'The decoder'), or as GuessDecoderRoles finds them.

struct StatePorts {
  std::string input;
  // Of a step graph; empty: a loop's own back edge, or an input that takes the number of the step.
  std::string output;
  float constant = 0;  // what it starts with, where that is a constant
};

// An empty name: the only port that it can be, where there is one.
struct DecoderPorts {
  std::string loop;  // the node; ignored for a step graph
  std::string token_input;
  std::vector<StatePorts> states;
  std::vector<std::string> memory;  // inputs that stay the same in all steps
  std::string logits_output;
  std::string attention_output;  // empty: none
};

// The types of ports as requests bring them. Graphs of 16-bit floats behind ports of f32: Requests
// bring f32, searches read f32, and what lies between may be as narrow as the file has it: a 16-bit
// number is an f32 as well, so states lose nothing on their way from one step to the next.

// Makes every Parameter of f16 or bf16 one of f32 that is converted at once, and every Result of
// these types one of f32. Names and the order of ports stay; a graph without such ports stays as it
// is. First as TakeFloatIds.
void TakeAndGiveF32(Graph& graph);

// Makes every Parameter of floats that is converted to integers and looked up, and else only
// compared with constants, one of i64: Keras' models take token ids as floats, and mask padding.
void TakeFloatIds(Graph& graph);

// Tokens that a graph takes one-hot, as Keras' sequence-to-sequence examples have them: floats
// [rows, .., tokens] with a one at the token. A search and a tokeniser speak of ids.

// The number of tokens that a Parameter may take one-hot: the extent of its last axis. 0: it takes
// none so, for it is not of floats, or its shape or that extent is not known.
int64_t OneHotTokens(const Graph& graph, int parameter);

// Makes that Parameter (node index) take ids, i64 without the last axis. The rest of the graph
// reads what it read before. Node indices change; those of graph.parameters keep their order.
void TakeIds(Graph& graph, int parameter);

// A decoder may begin with a vector of zeros: an id behind those of its tokens, as OneHot reads it.
// Gives that id a score, `score`, behind the others of the Result `name` (the only one, if empty).
// The graph is as InferGraph leaves it, or it stays as it is.
absl::Status AddScoreOfBegin(Graph& graph, const std::string& name, float score);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_DECODER_PORTS_H_
