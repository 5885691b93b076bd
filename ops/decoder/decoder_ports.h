// Which inputs and outputs of a graph a search uses, by PortName: as model.textproto names them
// (docs/bundle.md, 'The decoder'), or as GuessDecoderRoles finds them.
#ifndef BEAMWRIGHT_OPS_DECODER_DECODER_PORTS_H_
#define BEAMWRIGHT_OPS_DECODER_DECODER_PORTS_H_

#include <string>
#include <vector>

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_DECODER_PORTS_H_
