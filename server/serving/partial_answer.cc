#include "server/serving/partial_answer.h"

namespace beamwright::serving {

void TakeStable(const engine::DecodeModel& model, StablePrefix& prefix, v1::StableTokens& message) {
  message.set_position(static_cast<int>(prefix.num_taken));
  message.mutable_tokens()->Add(
      prefix.tokens.begin() + static_cast<std::ptrdiff_t>(prefix.num_taken), prefix.tokens.end());
  message.set_text(model.target().Decode(prefix.tokens));
  prefix.num_taken = prefix.tokens.size();
}

v1::Hypothesis MakeProvisional(const engine::DecodeModel& model,
                               const engine::Provisional& hypothesis) {
  v1::Hypothesis made;
  made.mutable_tokens()->Add(hypothesis.tokens.begin(), hypothesis.tokens.end());
  made.mutable_token_frames()->Add(hypothesis.frames.begin(), hypothesis.frames.end());
  made.set_text(model.target().Decode(hypothesis.tokens));
  made.set_score(hypothesis.score);
  return made;
}

}  // namespace beamwright::serving
