// The words of a recognised segment and when they were said.
#ifndef BEAMWRIGHT_SERVER_SERVING_WORDS_H_
#define BEAMWRIGHT_SERVER_SERVING_WORDS_H_

#include <string>
#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"

namespace beamwright::serving {

struct Word {
  std::string text;
  // From the beginning of the segment.
  double begin_ms = 0;
  double end_ms = 0;
  // The geometric mean of its tokens' probabilities; 1 where the hypothesis does not have them.
  double confidence = 1;
};

// In their order: tokens are joined up to the next one that begins with a space, or with the mark
// of a word's beginning. Empty where the hypothesis has no frames of its tokens, or where the model
// does not say how long a frame is.
std::vector<Word> WordsOf(const engine::DecodeModel& model, const v1::Hypothesis& hypothesis);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_WORDS_H_
