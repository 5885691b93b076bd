// A search printed step by step for people: why its best hypothesis won and why a target did not.
#ifndef BEAMWRIGHT_CLIENT_CLI_EXPLANATION_H_
#define BEAMWRIGHT_CLIENT_CLI_EXPLANATION_H_

#include <string>

#include "beamwright/v1/decode.pb.h"

namespace beamwright::client {

struct ExplanationOptions {
  // Of a hypothesis; those in the middle are left out first.
  int max_steps = 40;
  // Hypotheses are samples: none of them won.
  bool drawn = false;
  // The answer's score and a target's count the same things.
  bool comparable = true;
};

// Of an answer with a trace and at least one hypothesis. Both end with a line break, are at most
// two lines a step long, and hold nothing that steers a terminal.
std::string WhyItWon(const v1::Decoded& decoded, const ExplanationOptions& options);

// target: as Score returns it.
std::string WhyItLost(const v1::Decoded& decoded, const v1::Hypothesis& target,
                      const ExplanationOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_EXPLANATION_H_
